// The browser and the pages that the tests look at.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { cpus } from 'node:os';
import path from 'node:path';
import { after, before } from 'node:test';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';

/** Paths of the pages to look at, from BYTECOST_REPORT; several are separated by `:`. */
export function reports() {
  return named('BYTECOST_REPORT');
}

/** Paths of made-up pages that have crossovers, explanations and claims, from BYTECOST_REASONS. */
export function reasons() {
  return named('BYTECOST_REASONS');
}

/** Paths of pages that have heat maps, from BYTECOST_DISTANCES. */
export function distances() {
  return named('BYTECOST_DISTANCES');
}

function named(variable) {
  const files = (process.env[variable] ?? '').split(path.delimiter).filter(Boolean);
  if (files.length === 0) {
    throw new Error(`${variable} names no page: set it to the path of a report.html`);
  }
  for (const file of files) {
    if (!existsSync(file)) throw new Error(`${file}: no such page (${variable})`);
  }
  return files;
}

/** Tests of a page that are done at the same time, each with a page of its own. */
export const atOnce = { concurrency: Math.max(2, cpus().length) };

/** Starts the browser. */
async function launch() {
  if (!existsSync(executablePath)) {
    throw new Error(`${executablePath}: no browser; install chromium or set CHROMIUM to its path`);
  }
  return chromium.launch({
    executablePath,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
  });
}

/** A tab that notes everything that a quiet page never does. */
async function tab(browser, script) {
  const context = await browser.newContext({ javaScriptEnabled: script });
  const page = await context.newPage();
  const it = { page, url: '', noise: [] };
  page.on('console', (m) => it.noise.push(`console ${m.type()}: ${m.text()}`));
  page.on('pageerror', (e) => it.noise.push(`error: ${e.message}`));
  page.on('dialog', (d) => { it.noise.push(`dialog: ${d.message()}`); d.dismiss(); });
  page.on('request', (r) => {
    if (r.url() !== it.url && !r.url().startsWith('data:')) it.noise.push(`request: ${r.url()}`);
  });
  return it;
}

/** Loads a page anew, as a reader with these options sees it first. */
async function load(it, file, { width = 1280, scheme = 'light' }) {
  await it.page.goto('about:blank');
  await it.page.mouse.move(0, 0);
  await it.page.setViewportSize({ width, height: 900 });
  await it.page.emulateMedia({ media: null, colorScheme: scheme });
  it.url = pathToFileURL(path.resolve(file)).href;
  it.noise = [];
  await it.page.goto(it.url);
}

/**
 * One browser for all tests of a file. What it gives opens a page, lets `act` use it, and expects
 * that it stayed quiet. A new tab takes as long as all else of a short test, so the next test has
 * it; none that a test failed in.
 */
export function inBrowser() {
  let browser;
  const free = { true: [], false: [] };
  before(async () => { browser = await launch(); });
  after(async () => { await browser?.close(); });
  return async (file, options, act) => {
    const script = options.script ?? true;
    const it = free[script].pop() ?? await tab(browser, script);
    await load(it, file, options);
    await act(it.page);
    assert.deepEqual(it.noise, []);
    free[script].push(it);
  };
}
