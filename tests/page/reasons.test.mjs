// What the page says of why: crossovers, explanations, claims, what others published, and figures
// that show it.
import assert from 'node:assert/strict';
import path from 'node:path';
import { describe, test } from 'node:test';
import { atOnce, inBrowser, reasons } from './browser.mjs';

const using = inBrowser();

for (const file of reasons()) {
  describe(path.basename(file), atOnce, () => {
    test('an explanation folds out, by mouse and by key, and its evidence can be followed', () =>
      using(file, {}, async (page) => {
        const first = page.locator('#why .card:has(details)').first();
        const numbers = first.locator('details dl');
        assert.ok(await first.locator('p').first().isVisible());
        assert.ok(!(await numbers.isVisible()));
        await first.locator('summary').click();
        assert.ok(await numbers.isVisible());
        await first.locator('summary').press('Enter');
        assert.ok(!(await numbers.isVisible()));
        await first.locator('summary').press('Enter');
        const labels = ['Numbers', 'Evidence', 'What would change it'];
        const said = await numbers.locator('dt').allTextContents();
        assert.ok(said.length > 0 && said.every((label) => labels.includes(label)), said);
        const link = page.locator('a.evidence').first();
        const wanted = (await link.getAttribute('data-rows')).split(' ');
        await link.click();
        assert.deepEqual(await page.locator('tr.hit').evaluateAll((r) => r.map((e) => e.id)), wanted);
      }));

    test('a question that was not answered says what is missing', () =>
      using(file, {}, async (page) => {
        const open = await page.locator('#why .card > p.faint').allTextContents();
        assert.ok(open.length > 0);
        for (const text of open) assert.match(text, /No answer in this run: \S/);
      }));

    test('a crossover says from where on, or why not, and what is open is folded away', () =>
      using(file, {}, async (page) => {
        const rows = await page.locator('#crossovers tbody tr').allTextContents();
        assert.ok(rows.length > 0);
        for (const row of rows) assert.match(row, /from|up to|throughout|never within|not decided within/);
        const open = page.locator('#crossovers details').last();
        assert.ok(!await open.locator('table').isVisible());
        await open.locator('summary').click();
        assert.ok(await open.locator('table').isVisible());
      }));

    test('a ruling is told by its word as well as by its colour', () =>
      using(file, {}, async (page) => {
        const words = await page.locator('.ruling').allTextContents();
        assert.ok(words.length > 0 && words.every((w) => /^\S \S+/.test(w)), words);
        const looks = await page.locator('.ruling').evaluateAll((all) =>
          all.map((e) => `${e.className} ${getComputedStyle(e).color}`));
        const kinds = new Set(looks.map((look) => look.split(' ')[1]));
        assert.equal(new Set(looks).size, kinds.size);
        assert.ok(await page.locator('#claims .card table').first().isVisible());
      }));

    test('published numbers stand beside the measured, and hollow in the figures', () =>
      using(file, {}, async (page) => {
        for (const summary of await page.locator('#published summary').all()) {
          await summary.click();
        }
        const rows = page.locator('#published tbody tr');
        assert.ok(await rows.count() > 0);
        assert.ok(await rows.first().isVisible());
        const figure = page.locator('figure.chart', { has: page.locator('.theirs') }).first();
        const theirs = figure.locator('.series.theirs');
        assert.ok(await theirs.count() > 0);
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
        assert.ok(await dots.count() > 0);
        const figure = page.locator('figure.chart', { has: page.locator('.dot[data-stalled]') }).first();
        assert.match((await figure.locator('.legend .sign').allTextContents()).join(' '), /delayed acknowledgement/);
        await dots.first().focus();
        assert.match(await figure.locator('.tip').textContent(), /waits for a delayed acknowledgement/);
        await figure.locator('[data-show="table"]').click();
        assert.equal(await figure.locator('.data .stalls').count(), await figure.locator('.dot[data-stalled]').count());
      }));

    test('a figure without a point is a frame with the reason in it', () =>
      using(file, { width: 380 }, async (page) => {
        const figure = page.locator('figure.chart.empty', { hasText: 'this machine has none' });
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
        const dl = page.locator('#why details dl').first();
        assert.ok((await dl.boundingBox())?.height > 20);
      }));
  });
}
