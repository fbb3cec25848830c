import { spawnSync } from 'node:child_process';
import path from 'node:path';
import type { Finding } from '../../src/doctor/finding';
import { nodeFinding, zeromqFinding } from '../../src/doctor/runtime';
import { readManifest } from '../../src/version';
import { readPage } from '../support/doc-pages';

test.each([
  ['18.20.8', 'problem'],
  ['20.14.0', 'problem'],
  ['20.15.0', 'ok'],
  ['20.20.2', 'ok'],
  ['22.1.0', 'problem'],
  ['22.2.0', 'ok'],
  ['22.23.3', 'ok'],
  ['23.11.1', 'warning'],
  ['24.0.0', 'ok'],
  ['25.9.0', 'warning'],
  ['26.10.0', 'ok'],
  ['27.0.0', 'warning'],
])('Node %s: %s', (version, verdict) => {
  expect(nodeFinding(version)).toMatchObject({ verdict, details: { version: `v${version}` } });
});

test('a version that is not tested is told which are', () => {
  expect(nodeFinding('25.9.0').words).toMatch(
    /^v25\.9\.0 on .*; gradring is tested with \^20\.15, \^22\.2, \^24\.0, \^26\.0$/,
  );
});

test('the README names the versions of `engines`', () => {
  const lines = readManifest().engines.node.match(/\d+(?=\.)/g)!;
  const page = readPage('README.md').replaceAll('\n', ' ');
  expect(page).toContain(`Node ${lines.slice(0, -1).join(', ')} or ${lines.at(-1)}`);
  expect(page).toMatch(/with Node 20 \(from 20\.15\), 22 \(from 22\.2\), 24 and 26,/);
  expect(readManifest().engines.node).toBe('^20.15 || ^22.2 || ^24.0 || ^26.0');
});

/** What is said of shared memory by a process that begins with some code. */
function sharedMemory(before: string): Finding {
  const limits = JSON.stringify(path.join(__dirname, '../../dist/doctor/limits.js'));
  const program = `${before}; console.log(JSON.stringify(require(${limits}).sharedMemoryFinding()))`;
  return JSON.parse(spawnSync(process.execPath, ['-e', program], { encoding: 'utf8' }).stdout) as Finding;
}

test('an optional koffi that did not install, or does not load, is told', () => {
  const noKoffi = JSON.stringify(path.join(__dirname, '../support/no-koffi.js'));
  const slower = 'ranks of one host use sockets, which are slower';
  expect(sharedMemory(`require(${noKoffi})`)).toMatchObject({
    verdict: 'warning',
    words: `the optional package koffi is installed, but does not work here; ${slower}`,
  });
  const notFound = `const { Module } = require('node:module');
    const resolve = Module._resolveFilename;
    Module._resolveFilename = (name, ...rest) => {
      if (name === 'koffi') throw new Error('not found');
      return resolve(name, ...rest);
    }`;
  expect(sharedMemory(notFound)).toMatchObject({
    verdict: 'warning',
    words: `the optional package koffi did not install (npm install --include=optional); ${slower}`,
  });
});

test('ZeroMQ that cannot be loaded is a problem in words', async () => {
  const load = () => Promise.reject(new Error('No native build was found for linux-riscv.\nTried: …'));
  expect(await zeromqFinding(load)).toMatchObject({
    verdict: 'problem',
    words:
      "it cannot be loaded: No native build was found for linux-riscv. Install it again with 'npm rebuild zeromq', or 'npm install'",
  });
  expect(await zeromqFinding()).toMatchObject({ verdict: 'ok', details: { curve: true, ipc: true } });
});
