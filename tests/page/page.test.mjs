// What a reader does with a report, done in a real browser.
import assert from 'node:assert/strict';
import path from 'node:path';
import { describe, test } from 'node:test';
import { atOnce, inBrowser, reports } from './browser.mjs';

/** Figures that have a point. */
const DRAWN = 'figure.chart:not(.empty)';

const using = inBrowser();

/** The middle of an element, in the coordinates of the window. */
async function middle(locator) {
  await locator.scrollIntoViewIfNeeded();
  const box = await locator.boundingBox();
  return [box.x + box.width / 2, box.y + box.height / 2];
}

/** Opens what these buttons open, all at once: what is looked at is the page that they leave. */
async function openAll(page, buttons) {
  await page.locator(buttons).evaluateAll((all) => all.forEach((button) => button.click()));
}

for (const file of reports()) {
  describe(path.basename(file), atOnce, () => {
    test('it opens quietly, asks the network for nothing and has figures', () =>
      using(file, {}, async (page) => {
        assert.ok((await page.locator('figure.chart svg .dot').count()) > 0);
        assert.ok((await page.locator('h1').textContent()).trim().length > 0);
        assert.deepEqual(await page.evaluate(() => {
          const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
          return ids.filter((id, i) => ids.indexOf(id) !== i);
        }), [], 'ids are unique');
        assert.deepEqual(await page.evaluate(() =>
          [...document.querySelectorAll('a[href^="#"]')].map((a) => a.hash)
            .filter((hash) => !document.querySelector(hash))), [], 'links lead somewhere');
      }));

    test('a name in the legend switches its line, by mouse and by key', () =>
      using(file, {}, async (page) => {
        for (const figure of await page.locator(DRAWN).all()) {
          for (const key of (await figure.locator('.legend [data-line]:enabled').all()).slice(0, 3)) {
            const number = await key.getAttribute('data-line');
            const line = figure.locator(`.series[data-line="${number}"]`);
            assert.equal(await key.getAttribute('aria-pressed'), 'true');
            assert.ok(await line.locator('.marker').first().isVisible());
            await key.click();
            assert.equal(await key.getAttribute('aria-pressed'), 'false');
            assert.ok(!(await line.locator('.marker').first().isVisible()));
            await key.press('Space');
            assert.equal(await key.getAttribute('aria-pressed'), 'true');
            assert.ok(await line.locator('.marker').first().isVisible());
          }
          const all = figure.locator('.legend .all');
          if (await all.count()) {
            await all.click();
            assert.equal(await figure.locator('.series:not(.off)').count(),
              await figure.locator('.legend [data-line]:disabled').count());
            await all.click();
            assert.equal(await figure.locator('.series.off').count(), 0);
          }
        }
      }));

    test('pointing at a value tells it with its interval', () =>
      using(file, {}, async (page) => {
        for (const figure of await page.locator(DRAWN).all()) {
          const tip = figure.locator('.tip');
          const dots = await figure.locator('.dot').all();
          assert.ok(!(await tip.isVisible()));
          for (const dot of [dots[0], dots.at(-1)]) {
            await page.mouse.move(...await middle(dot));
            assert.ok(await tip.isVisible());
            const shown = figure.locator('.dot.on');
            const said = await tip.textContent();
            for (const part of ['data-x', 'data-value', 'data-interval', 'data-compared']) {
              assert.ok(said.includes(await shown.getAttribute(part)), `${part} in ${said}`);
            }
            assert.match(said, /interval/);
          }
          await page.mouse.move(2, 2);
          assert.ok(!(await tip.isVisible()));
        }
      }));

    test('so does the keyboard: one stop a figure, arrows from point to point', () =>
      using(file, {}, async (page) => {
        const figure = page.locator(DRAWN).first();
        const tip = figure.locator('.tip');
        assert.equal(await figure.locator('.dot[tabindex="0"]').count(), 1);
        await figure.locator('.legend button').last().focus();
        await page.keyboard.press('Tab');
        const focused = () => page.evaluate(() => {
          const dot = document.activeElement;
          return { ...dot.dataset, line: dot.parentNode.dataset.line, value: dot.dataset.value };
        });
        const first = await focused();
        assert.ok(await tip.isVisible());
        assert.ok((await tip.textContent()).includes(first.value));
        await page.keyboard.press('ArrowRight');
        const second = await focused();
        assert.equal(second.line, first.line);
        assert.ok(Number(second.column) > Number(first.column));
        assert.ok((await tip.textContent()).includes(second.value));
        await page.keyboard.press('ArrowLeft');
        assert.deepEqual(await focused(), first);
        await page.keyboard.press('ArrowDown');
        await page.keyboard.press('ArrowUp');
        assert.equal((await focused()).column, first.column);
        await page.keyboard.press('Escape');
        assert.ok(!(await tip.isVisible()));
      }));

    test('the table of a figure has the numbers of the figure', () =>
      using(file, {}, async (page) => {
        for (const figure of await page.locator(DRAWN).all()) {
          const drawn = await figure.locator('.dot').evaluateAll((dots) => dots.map((dot) => ({
            line: Number(dot.parentNode.dataset.line),
            column: Number(dot.dataset.column),
            value: dot.dataset.value.split(' ')[0],
            interval: dot.dataset.interval,
          })));
          const [asFigure, asTable] = await figure.locator('[data-show]').all();
          await asTable.click();
          assert.equal(await asTable.getAttribute('aria-pressed'), 'true');
          assert.ok(!(await figure.locator('.drawn').isVisible()));
          assert.ok(await figure.locator('.data').isVisible());
          const rows = await figure.locator('.data tbody tr').evaluateAll((rows) =>
            rows.map((row) => [...row.querySelectorAll('td')].map((cell) => ({
              value: cell.querySelector('b')?.textContent,
              interval: cell.querySelector('small')?.textContent,
            }))));
          for (const dot of drawn) {
            const cell = rows[dot.line][dot.column];
            assert.equal(cell.value, dot.value);
            if (cell.interval) assert.ok(dot.interval.includes(cell.interval));
          }
          const numbers = rows.flat().filter((cell) => cell.value !== undefined).length;
          assert.equal(numbers, drawn.length, 'no number more, none less');
          await asFigure.click();
          assert.ok(await figure.locator('.drawn').isVisible());
        }
      }));

    test('comparisons can be narrowed to a verdict or to what an answer rests on', () =>
      using(file, {}, async (page) => {
        await page.locator('#all summary').click();
        const visible = () => page.locator('#all tbody tr').evaluateAll((rows) =>
          rows.filter((row) => row.offsetParent !== null).map((row) => row.dataset.verdict));
        const everything = await visible();
        for (const button of await page.locator('[data-filter]').all()) {
          const verdict = await button.getAttribute('data-filter');
          await button.click();
          const wanted = everything.filter((v) => verdict === '' || v === verdict);
          assert.deepEqual(await visible(), wanted);
        }
        await page.locator('#all summary').click();
        const link = page.locator('.evidence').first();
        if (await link.count()) {
          await link.click();
          // An answer names its findings by their weight, the table has them in its own order.
          const wanted = (await link.getAttribute('data-rows')).split(' ');
          const hit = await page.locator('tr.hit').evaluateAll((r) => r.map((e) => e.id));
          assert.deepEqual(hit.toSorted(), wanted.toSorted());
          assert.ok(await page.locator(`#${wanted[0]}`).isVisible());
        }
      }));

    for (const width of [320, 380, 768, 1280, 1920]) {
      test(`nothing runs over the edge at ${width} px`, () =>
        using(file, { width }, async (page) => {
          for (const step of [null, '[data-show="table"]', 'summary']) {
            if (step) await openAll(page, step);
            const over = await page.evaluate(() => {
              const edge = document.documentElement.clientWidth;
              const wide = [...document.querySelectorAll('body *')].filter((e) =>
                !e.closest('.scroll *, .plot *') && e.getBoundingClientRect().right > edge + 0.5);
              const names = wide.map((e) => `${e.tagName}.${e.className}: ${e.textContent.trim().slice(0, 40)}`);
              if (document.documentElement.scrollWidth > edge) names.push(`page: ${document.documentElement.scrollWidth}`);
              return names;
            });
            assert.deepEqual(over, [], step ?? 'as opened');
          }
        }));
    }

    for (const scheme of ['light', 'dark']) {
      test(`text and lines stand out from their ground in ${scheme}`, () =>
        using(file, { scheme }, async (page) => {
          await openAll(page, 'summary');
          const faint = await page.evaluate(() => {
            const parse = (color) => color.match(/[\d.]+/g).map(Number);
            const luminance = ([r, g, b]) => [r, g, b]
              .map((c) => c / 255)
              .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
              .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
            const ground = (e) => {
              for (let at = e; at; at = at.parentElement) {
                const color = parse(getComputedStyle(at).backgroundColor);
                if (color[3] !== 0) return color;
              }
              return [255, 255, 255];
            };
            const contrast = (color, e) => {
              const [a, b] = [luminance(parse(color)), luminance(ground(e))].sort((x, y) => y - x);
              return (a + 0.05) / (b + 0.05);
            };
            const found = [];
            const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            while (walker.nextNode()) {
              const e = walker.currentNode.parentElement;
              if (!walker.currentNode.data.trim() || !e.checkVisibility() || e.closest('script, :disabled')) continue;
              const style = getComputedStyle(e);
              const ratio = contrast(e.closest('svg') ? style.fill : style.color, e);
              if (ratio < 4.5 && !(e.closest('svg') && ratio >= 3)) found.push(`${ratio.toFixed(2)} ${walker.currentNode.data.trim().slice(0, 40)}`);
            }
            for (const line of document.querySelectorAll('.series .line')) {
              const ratio = contrast(getComputedStyle(line).stroke, line);
              if (ratio < 3) found.push(`${ratio.toFixed(2)} line ${line.parentNode.getAttribute('class')}`);
            }
            return found;
          });
          assert.deepEqual(faint, []);
        }));
    }

    test('without its script it shows figures and tables', () =>
      using(file, { script: false }, async (page) => {
        for (const figure of await page.locator(DRAWN).all()) {
          assert.ok(await figure.locator('.dot .marker').first().isVisible());
          assert.ok(await figure.locator('.data table').isVisible());
        }
        for (const button of await page.locator('.js-only').all()) {
          assert.ok(!(await button.isVisible()));
        }
      }));

    test('on paper it shows figures and tables, on white, and no buttons', () =>
      using(file, { scheme: 'dark' }, async (page) => {
        await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
        for (const figure of await page.locator(DRAWN).all()) {
          assert.ok(await figure.locator('.dot .marker').first().isVisible());
          assert.ok(await figure.locator('.data table').isVisible());
          assert.ok(!(await figure.locator('.switch').isVisible()));
        }
        const card = await page.locator('.card').first().evaluate((e) => getComputedStyle(e).backgroundColor);
        assert.equal(card, 'rgb(255, 255, 255)');
        assert.ok((await page.pdf()).length > 10_000);
      }));
  });
}
