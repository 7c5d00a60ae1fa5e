// The heat maps of what the distance between two CPUs costs, read by mouse, as a table and by ear.
import assert from 'node:assert/strict';
import path from 'node:path';
import { describe, test } from 'node:test';
import { atOnce, inBrowser, distances } from './browser.mjs';

const using = inBrowser();

for (const file of distances()) {
  describe(path.basename(file), atOnce, () => {
    test('a map has a field for each two CPUs, painted the stronger the longer', () =>
      using(file, {}, async (page) => {
        const maps = await page.locator('figure.heat').all();
        assert.ok(maps.length > 0);
        for (const map of maps) {
          const cpus = await map.locator('tbody tr').count();
          const fields = await map.locator('.map .field').evaluateAll((all) => all.map((field) => {
            const box = field.querySelector('rect').getBoundingClientRect();
            const label = field.querySelector('text').getBoundingClientRect();
            return {
              number: Number(field.querySelector('text').textContent.replaceAll(',', '')),
              opacity: Number(field.querySelector('rect').getAttribute('fill-opacity')),
              fits: label.left >= box.left && label.right <= box.right,
              square: Math.abs(box.width - box.height) < 0.5,
            };
          }));
          assert.equal(fields.length, cpus * cpus);
          assert.ok(fields.every((field) => field.square && field.fits), 'numbers are within their fields');
          const measured = fields.filter((field) => !Number.isNaN(field.number));
          measured.sort((a, b) => a.number - b.number);
          for (let i = 1; i < measured.length; i += 1) {
            assert.ok(measured[i].opacity >= measured[i - 1].opacity - 1e-3);
          }
        }
      }));

    test('its table has the same numbers, with their intervals', () =>
      using(file, {}, async (page) => {
        for (const map of await page.locator('figure.heat').all()) {
          const drawn = await map.locator('.map .field text').allTextContents();
          const [asFigure, asTable] = await map.locator('[data-show]').all();
          assert.ok(!(await map.locator('.data').isVisible()));
          await asTable.click();
          assert.equal(await asTable.getAttribute('aria-pressed'), 'true');
          assert.equal(await asFigure.getAttribute('aria-pressed'), 'false');
          assert.ok(await map.locator('.data').isVisible());
          assert.ok(!(await map.locator('.map').isVisible()));
          const told = await map.locator('tbody td').evaluateAll((cells) =>
            cells.map((cell) => cell.querySelector('b')?.textContent ?? '–'));
          assert.deepEqual(told, drawn);
          const intervals = await map.locator('tbody td small').count();
          assert.equal(intervals, told.filter((value) => value !== '–').length);
          await asFigure.click();
          assert.ok(await map.locator('.map').isVisible());
        }
      }));

    test('a map says in words what it shows, and each field what it is', () =>
      using(file, {}, async (page) => {
        const map = page.locator('figure.heat').first();
        const label = await map.locator('.map svg').getAttribute('aria-label');
        for (const words of await map.locator('.words').allTextContents()) {
          assert.ok(label.includes(words), words);
        }
        const titles = await map.locator('.map .field title').allTextContents();
        assert.ok(titles.every((title) => title.includes(': ')));
        assert.match(await map.locator('.gaps').textContent(), /No number for 0:0/);
      }));

    test('without its script it shows maps and tables', () =>
      using(file, { script: false }, async (page) => {
        const map = page.locator('figure.heat').first();
        assert.ok(await map.locator('.map').isVisible());
        assert.ok(await map.locator('.data table').isVisible());
      }));
  });
}
