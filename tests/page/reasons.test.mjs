// What the page says of why: crossovers, explanations, claims, what others published, and figures
// that show it.
import assert from 'node:assert/strict';
import path from 'node:path';
import { describe, test } from 'node:test';
import { inBrowser, reasons } from './browser.mjs';

const using = inBrowser();

for (const file of reasons()) {
  describe(path.basename(file), () => {
    test('an explanation folds out, by mouse and by key, and its evidence can be followed', () =>
      using(file, {}, async (page) => {
        const first = page.locator('.reason:not(.unanswered)').first();
        const numbers = first.locator('details dl');
        assert.ok(await first.locator('.says').isVisible());
        assert.ok(!(await numbers.isVisible()));
        await first.locator('summary').click();
        assert.ok(await numbers.isVisible());
        await first.locator('summary').press('Enter');
        assert.ok(!(await numbers.isVisible()));
        await first.locator('summary').press('Enter');
        const said = await numbers.locator('dt').allTextContents();
        assert.deepEqual(said, ['Numbers', 'Evidence', 'What would change it', 'Rests on']);
        const link = first.locator('a.evidence');
        const wanted = (await link.getAttribute('data-rows')).split(' ');
        await link.click();
        assert.deepEqual(await page.locator('tr.hit').evaluateAll((r) => r.map((e) => e.id)), wanted);
      }));

    test('a question that was not answered says what is missing', () =>
      using(file, {}, async (page) => {
        const open = page.locator('.unanswered');
        assert.equal(await open.count(), 1);
        assert.match(await open.textContent(), /Not answered by this run: \S/);
        assert.equal(await open.locator('.says').count(), 0);
      }));

    test('a crossover says from where on, how sure, or why not', () =>
      using(file, {}, async (page) => {
        const rows = await page.locator('.crossovers tbody tr').evaluateAll((rows) =>
          rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
        assert.equal(rows.length, 5);
        assert.match(rows[0][3], /from 6\.07 KiB/);
        assert.match(rows[0][4], /5\.4 KiB to 6\.9 KiB/);
        assert.match(rows[3][3], /never within 256 B to 1 MiB/);
        assert.match(rows[4][3], /not decided within/);
        const open = page.locator('.open-crossovers');
        assert.ok(!await open.locator('table').isVisible());
        await open.locator('summary').click();
        assert.ok(await open.locator('table').isVisible());
      }));

    test('a ruling is told by its word as well as by its colour', () =>
      using(file, {}, async (page) => {
        const words = await page.locator('.ruling').allTextContents();
        assert.deepEqual(words.map((w) => w.replace(/^\S+ /, '')),
          ['holds here', 'holds for another reason', 'does not hold here', 'cannot be settled here']);
        const colors = await page.locator('.ruling').evaluateAll((all) =>
          all.map((e) => getComputedStyle(e).color));
        assert.equal(new Set(colors.slice(0, 3)).size, 3);
        assert.ok(await page.locator('.claim table').first().isVisible());
      }));

    test('published numbers stand beside the measured, and hollow in the figures', () =>
      using(file, {}, async (page) => {
        for (const summary of await page.locator('#published summary').all()) {
          await summary.click();
        }
        const rows = page.locator('#published tbody tr');
        assert.equal(await rows.count(), 72);
        assert.ok(await rows.first().isVisible());
        const figure = page.locator('figure.chart').first();
        const theirs = figure.locator('.series.theirs');
        assert.equal(await theirs.count(), 3);
        const card = await figure.evaluate((e) => getComputedStyle(e).backgroundColor);
        const marker = theirs.first().locator('.marker').first();
        assert.equal(await marker.evaluate((e) => getComputedStyle(e).fill), card);
        const dash = await theirs.first().locator('.line').evaluate((e) => getComputedStyle(e).strokeDasharray);
        assert.notEqual(dash, 'none');
        const dot = theirs.first().locator('.dot').first();
        await dot.focus();
        assert.match(await figure.locator('.tip').textContent(), /published by .*, without an interval/);
      }));

    test('a point that stalls is marked and says so', () =>
      using(file, {}, async (page) => {
        const dots = page.locator('.dot[data-stalled]');
        assert.equal(await dots.count(), 2);
        const figure = page.locator('figure.chart', { has: dots.first() });
        assert.match(await figure.locator('.legend .sign').first().textContent(), /delayed acknowledgement/);
        await dots.first().focus();
        assert.match(await figure.locator('.tip').textContent(), /waits for a delayed acknowledgement/);
        await figure.locator('[data-show="table"]').click();
        assert.equal(await figure.locator('.data .stalls').count(), 2);
      }));

    test('a figure without a point is a frame with the reason in it', () =>
      using(file, { width: 380 }, async (page) => {
        const figure = page.locator('figure.chart.empty');
        assert.equal(await figure.count(), 1);
        const frame = figure.locator('.none');
        assert.match(await frame.textContent(), /not measured here: hardware counters/);
        const inside = await frame.evaluate((e) => e.scrollHeight <= e.clientHeight + 1);
        assert.ok(inside, 'the reason fits into the frame');
        assert.ok(!(await figure.locator('.legend').isVisible()));
      }));

    test('a gap has its reason where it is pointed at', () =>
      using(file, {}, async (page) => {
        const marks = page.locator('figure.chart .plot .missing');
        assert.ok((await marks.count()) > 0);
        for (const mark of await marks.all()) {
          assert.match(await mark.locator('title').textContent(), /^No point at .+: .+: \S/);
        }
      }));

    test('on paper the fold-outs of explanations are open', () =>
      using(file, {}, async (page) => {
        await page.emulateMedia({ media: 'print' });
        const dl = page.locator('.reason details dl').first();
        assert.ok((await dl.boundingBox())?.height > 20);
      }));
  });
}
