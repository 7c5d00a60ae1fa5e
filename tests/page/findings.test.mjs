// findings.json fits the schema that is published for it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import Ajv2020 from 'ajv/dist/2020.js';

const read = (file) => JSON.parse(readFileSync(file, 'utf8'));
const schema = read(new URL('../../schemas/findings.schema.json', import.meta.url));
// Formats such as `uint64` are Rust's, not JSON Schema's: they tell, they do not forbid.
const validate = new Ajv2020({ strict: false, validateFormats: false, allErrors: true }).compile(schema);

function findings() {
  const file = process.env.BYTECOST_FINDINGS;
  if (!file) throw new Error('BYTECOST_FINDINGS names no file: set it to the path of a findings.json');
  return read(file);
}

test('findings.json fits its schema', () => {
  validate(findings());
  assert.equal(validate.errors, null);
});

test('what is wrong does not fit', () => {
  for (const spoil of [
    (f) => { delete f.host; },
    (f) => { f.findings[0].verdict = 'splendid'; },
    (f) => { f.findings[0].ratio = '1.8'; },
    (f) => { f.figures[0].series[0].points[0] = { measured: 62.5 }; },
    (f) => { f.run.seed = -1; },
  ]) {
    const wrong = findings();
    spoil(wrong);
    assert.equal(validate(wrong), false, spoil.toString());
  }
});
