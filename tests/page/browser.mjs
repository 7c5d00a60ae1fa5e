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

/** Opens a page and notes everything that a quiet page never does. */
async function open(browser, file, options = {}) {
  const context = await browser.newContext({
    viewport: { width: options.width ?? 1280, height: 900 },
    colorScheme: options.scheme ?? 'light',
    javaScriptEnabled: options.script ?? true,
  });
  const page = await context.newPage();
  const url = pathToFileURL(path.resolve(file)).href;
  const noise = [];
  page.on('console', (m) => noise.push(`console ${m.type()}: ${m.text()}`));
  page.on('pageerror', (e) => noise.push(`error: ${e.message}`));
  page.on('dialog', (d) => { noise.push(`dialog: ${d.message()}`); d.dismiss(); });
  page.on('request', (r) => {
    if (r.url() !== url && !r.url().startsWith('data:')) noise.push(`request: ${r.url()}`);
  });
  await page.goto(url);
  return { page, noise, close: () => context.close() };
}

/**
 * One browser for all tests of a file. What it gives opens a page, lets `act` use it, and expects
 * that it stayed quiet.
 */
export function inBrowser() {
  let browser;
  before(async () => { browser = await launch(); });
  after(async () => { await browser?.close(); });
  return async (file, options, act) => {
    const { page, noise, close } = await open(browser, file, options);
    try {
      await act(page);
      assert.deepEqual(noise, []);
    } finally {
      await close();
    }
  };
}
