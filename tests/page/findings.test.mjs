// findings.json and hosts.json fit the schemas that are published for them.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import Ajv2020 from 'ajv/dist/2020.js';

const read = (file) => JSON.parse(readFileSync(file, 'utf8'));
// Formats such as `uint64` are Rust's, not JSON Schema's: they tell, they do not forbid.
const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });

// What has a schema, and what is not right in it.
const FILES = {
  findings: [
    (f) => { delete f.host; },
    (f) => { f.findings[0].verdict = 'splendid'; },
    (f) => { f.findings[0].ratio = '1.8'; },
    (f) => { f.cells[0].estimates = { cpu_s_per_gb: 62.5 }; },
    (f) => { f.run.seed = -1; },
  ],
  hosts: [
    (h) => { delete h.hosts[0].run; },
    (h) => { h.findings[0].hosts[0].verdict = 'splendid'; },
    (h) => { h.differences[0].values[0].hosts = 'db7'; },
  ],
};

for (const [name, spoiled] of Object.entries(FILES)) {
  const validate = ajv.compile(read(new URL(`../../schemas/${name}.schema.json`, import.meta.url)));
  const given = () => {
    const variable = `BYTECOST_${name.toUpperCase()}`;
    const file = process.env[variable];
    if (!file) throw new Error(`${variable} names no file: set it to the path of a ${name}.json`);
    return read(file);
  };

  test(`${name}.json fits its schema`, () => {
    validate(given());
    assert.equal(validate.errors, null);
  });

  test(`what is wrong does not fit ${name}.json`, () => {
    for (const spoil of spoiled) {
      const wrong = given();
      spoil(wrong);
      assert.equal(validate(wrong), false, spoil.toString());
    }
  });
}
