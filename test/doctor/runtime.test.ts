import { spawnSync } from 'node:child_process';
import path from 'node:path';
import type { Finding } from '../../src/doctor/finding';
import { nodeFinding, zeromqFinding } from '../../src/doctor/runtime';
import { needs, testWhere } from '../support/test-where';

test.each([
  ['18.20.8', 'problem', 'gradring works with 20 (from 20.15), 22 (from 22.2), 24 and 26'],
  ['25.9.0', 'warning', 'gradring is tested with 20 (from 20.15), 22 (from 22.2), 24 and 26'],
])('with Node %s the doctor tells a %s, and which versions are tested', (version, verdict, words) => {
  const { platform, arch } = process;
  expect(nodeFinding(version)).toMatchObject({
    ...{ verdict, words: `v${version} on ${platform} ${arch}; ${words}` },
    details: { version: `v${version}` },
  });
});

const LIMITS = JSON.stringify(path.join(__dirname, '../../dist/doctor/limits.js'));

/** What is said of shared memory by a process that begins with some code. */
function sharedMemory(before: string): Finding {
  const program = `${before}; console.log(JSON.stringify(require(${LIMITS}).sharedMemoryFinding()))`;
  return JSON.parse(spawnSync(process.execPath, ['-e', program], { encoding: 'utf8' }).stdout) as Finding;
}

testWhere(needs.linux)('the limit of open files is told, and a low one is a warning', () => {
  const program = `console.log(JSON.stringify(require(${LIMITS}).openFilesFinding()))`;
  const findings = ['ulimit -Sn 80; ulimit -Hn 1024', 'ulimit -n 100'].map(limit => {
    const command = `${limit}; exec "$0" -e "$1"`;
    const { stdout } = spawnSync('bash', ['-c', command, process.execPath, program], { encoding: 'utf8' });
    return JSON.parse(stdout) as Finding;
  });
  expect(findings).toEqual([
    {
      ...{ what: 'Open files', verdict: 'ok', details: { limit: 1024 } }, // Node raises the soft limit to the hard one
      words: 'up to 1024 for each process, enough for a ring of 960 ranks',
    },
    {
      ...{ what: 'Open files', verdict: 'warning', details: { limit: 100 } },
      words: 'only 100 for each process, enough for a ring of 36 ranks; raise the hard limit (ulimit -n 1024, as root)',
    },
  ]);
});

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
