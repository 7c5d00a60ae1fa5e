// Copies a recorded run without what is of one machine alone: when it was, who else ran there, the
// names of the machine, of its kernel and of its start, the later blocks, and what each sample repeats.
//
// Usage: anonymous.mjs RUN FOLDER ID

import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const [run, folder, id] = process.argv.slice(2);
const read = (file) => readFileSync(join(run, file), 'utf8');
const manifest = JSON.parse(read('manifest.json'));
const identity = manifest.host.identity;
const release = manifest.host.kernel.split('-')[0];

// What stands in the manifest, and what stands there instead.
const replaced = [
  [manifest.id, id],
  [manifest.started, '2026-01-01T00:00:00Z'],
  [manifest.build_id, '0'.repeat(40)],
  [manifest.host.kernel, release],
  [identity.machine_id_hash, '1'.repeat(32)],
  [identity.boot_id, '00000000-0000-0000-0000-000000000000'],
  [identity.kernel_version, '#1 SMP PREEMPT_DYNAMIC'],
  [identity.kernel_command_line, 'quiet'],
  [identity.microcode, '0x1'],
  [run, id],
  [dirname(run), 'bytecost-runs'],
  [manifest.command[0], 'bytecost'],
  [
    'this machine has no such hardware counter: a virtual machine needs a virtual PMU; elsewhere the CPU does not count this event',
    'no such counter in this guest',
  ],
].filter(([from]) => from);

const without = (text) =>
  replaced
    .reduce((text, [from, to]) => text.replaceAll(from, to), text)
    .replace(/"ended":"[^"]*"/g, '"ended":"2026-01-01T00:01:00Z"')
    // Others by their number alone; two of one name are no longer one.
    .replace(/("others":\[)([^\]]*)/g, (_, open, list) => {
      let number = 0;
      return open + list.replace(/"name":"[^"]*","pid":\d+/g, () => `"name":"other-${++number}","pid":${number}`);
    })
    .replace(/("user":"other-processes","name":")[^"]*/g, '$1other');

// The first blocks alone. Readings that are absent are there once, in the first of them, with their reasons.
const BLOCKS = 4;
const isMeasured = ([, reading]) => typeof reading !== 'object';
const measured = (readings) => Object.fromEntries(Object.entries(readings).filter(isMeasured));
const block = (record) => {
  const [[, value]] = Object.entries(record);
  return record.evidence ? 0 : (value.trial?.block ?? value.block);
};
const shortened = (record) => {
  const { sample } = record;
  if (!sample || sample.trial.block === 0) return record;
  for (const side of [sample.sender, sample.receiver].filter(Boolean)) side.readings = measured(side.readings);
  sample.machine = measured(sample.machine);
  return record;
};
const log = without(read('samples.jsonl')).trimEnd().split('\n').map((line) => JSON.parse(line));
const kept = log.filter((record) => block(record) < BLOCKS).map(shortened);
const plain = JSON.parse(without(read('manifest.json')));
plain.study.blocks_least = plain.study.blocks_most = BLOCKS;
plain.plan.orders = plain.plan.orders.slice(0, BLOCKS);
const ended = { ...JSON.parse(without(read('ended.json'))), records: kept.length };

writeFileSync(join(folder, 'samples.jsonl'), `${kept.map((record) => JSON.stringify(record)).join('\n')}\n`);
writeFileSync(join(folder, 'manifest.json'), `${JSON.stringify(plain)}\n`);
writeFileSync(join(folder, 'ended.json'), JSON.stringify(ended));
