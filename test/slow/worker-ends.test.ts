import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { cleanUp, gradring, ROOT, temporaryFolder } from '../launcher/support';
import { cleanUpRanks, foldersLeft, freePort, RankProcess } from '../support/rings';

/** Ends of threads that hold a ring, of which no listener hears. With open ZeroMQ sockets, the process would abort. */

afterEach(cleanUpRanks);
afterEach(cleanUp);

/** A process with two ranks, each of which is a worker that runs `work` with its `ring`. It then does `next`. */
async function endWorkers(work: string, next: string, options = '{}') {
  const rank = `
    const { parentPort, workerData } = require('node:worker_threads');
    const { Communicator } = require(${JSON.stringify(path.join(ROOT, 'dist/communicator/communicator.js'))});
    Communicator.connect(workerData).then(async ring => {
      await ring.barrier();
      parentPort.postMessage('joined');
      ${work}
    }).catch(error => parentPort.postMessage(error.code + ' ' + error.rank));`;
  const source = `
    const { Worker } = require('node:worker_threads');
    const { once } = require('node:events');
    const workers = [0, 1].map(rank => new Worker(${JSON.stringify(rank)}, {
      ...${options}, eval: true, workerData: { rank, worldSize: 2, masterPort: ${await freePort()} },
    }));
    await Promise.all(workers.map(worker => once(worker, 'message')));
    ${next}`;
  const { exitCode, signal, stdout, stderr } = await new RankProcess(source, {}).ended;
  return { exitCode, signal, stdout, stderr };
}

test.each([
  ['is idle', 'setInterval(() => undefined, 1000); await new Promise(() => undefined);'],
  ['exchanges', 'for (;;) await ring.allReduce(new Float32Array(10_000));'],
  ['sleeps in a call', 'if (workerData.rank === 0) await new Promise(() => undefined); ring.barrierSync();'],
])('a worker is terminated while its ring %s: its process lives, and the neighbour is told', async (_, work) => {
  const next = `
    const told = once(workers[0], 'message');
    await workers[1].terminate();
    say('lives');
    if (${work.startsWith('for')}) say(String(await told));
    await workers[0].terminate();`;
  const stdout = `lives\n${work.startsWith('for') ? 'ERR_PEER_LOST 1\n' : ''}`;
  expect(await endWorkers(work, next)).toEqual({ exitCode: 0, signal: null, stdout, stderr: '' });
  expect(foldersLeft()).toEqual([]);
});

test('the process exits while workers hold a ring', async () => {
  const exits = await endWorkers('for (;;) await ring.allReduce(new Float32Array(10));', 'process.exit(7);');
  expect(exits).toEqual({ exitCode: 7, signal: null, stdout: '', stderr: '' });
});

test('a worker that holds a ring has no more memory', async () => {
  const next = `
    const [error] = await once(workers[1], 'error');
    say(error.code);
    await workers[0].terminate();`;
  const fill =
    'const all = []; if (workerData.rank === 1) for (;;) all.push({ all }); await new Promise(() => undefined);';
  const end = await endWorkers(fill, next, '{ resourceLimits: { maxOldGenerationSizeMb: 32 } }');
  expect(end).toMatchObject({ exitCode: 0, signal: null, stdout: 'ERR_WORKER_OUT_OF_MEMORY\n' });
});

test('an elastic run is not launched from a worker, which might end with the rendezvous open', async () => {
  const launch = `
    const { launch } = require(${JSON.stringify(path.join(ROOT, 'dist'))});
    const { parentPort } = require('node:worker_threads');
    launch({ ranks: 2, min: 1, script: ${JSON.stringify(path.join(ROOT, 'dist/index.js'))} }).catch(error => parentPort.postMessage(error.message));`;
  const [message] = (await once(new Worker(launch, { eval: true }), 'message')) as [string];
  expect(message).toContain('on the main thread');
});

test('a Jest test leaves its ring open', async () => {
  const rootDir = temporaryFolder();
  const core = JSON.stringify(path.join(ROOT, 'dist/core.js'));
  const test = `test('joins', async () => await (await require(${core}).connect()).barrier(), 60_000);`;
  writeFileSync(path.join(rootDir, 'open.test.js'), test);
  const jest = path.join(ROOT, 'node_modules/jest/bin/jest.js');
  const run = gradring('run', '-n', '2', jest, '--config', JSON.stringify({ rootDir }));
  expect(await run.exited).toEqual({ exitCode: 0, signal: null });
  expect(run.stderr).toMatch(/^\[0\] .*PASS/m);
});
