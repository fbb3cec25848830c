import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { cleanUp, temporaryFolder } from '../launcher/support';
import { canIsolate, expectAgreed, type FaultOptions, runFaulty } from './support';
import { testWhere } from '../support/test-where';

/** Faults of a training under `gradring run`. */

afterEach(cleanUp);

const train = (fault: string, options: FaultOptions = {}) => {
  const disk = temporaryFolder();
  mkdirSync(path.join(disk, 'full'));
  return runFaulty(2, '', {
    script: path.join(__dirname, 'training.js'),
    ...options,
    env: { FAULT: fault, DISK: disk, FULL_DISK: path.join(disk, 'full'), ...options.env },
  });
};

test('a gradient that is not finite on one rank: all ranks say on which, and when', async () => {
  const run = await train('not finite');
  expectAgreed(run, [0, 1], { code: 'ERR_NON_FINITE', rank: 1, step: 2 });
  expect(run.exitCode).toBe(1);
});

test('replicas that have diverged are found at the next comparison', async () => {
  const run = await train('diverged');
  expectAgreed(run, [0, 1], { code: 'ERR_REPLICAS_DIVERGED', rank: 1 });
  expect(run.exitCode).toBe(1);
});

test('a rank that is killed in a step: the others say in which', async () => {
  const run = await train('killed');
  expectAgreed(run, [0], { code: 'ERR_PEER_LOST', rank: 1, step: 2 });
  expect(run.raised[0]!.operation).toBe('an optimizer step');
  expect(run.raised[0]!.message).toMatch(/Rank 0 was in an optimizer step \(collective \d+, step 2\)/);
  expect(run.exitCode).toBe(137);
});

testWhere(canIsolate ? undefined : 'no mount of its own can be made')(
  'a disk that is full on one rank: all say which, and whole checkpoints stay',
  async () => {
    const run = await train('none', { prepare: 'mount -t tmpfs -o size=64k none "$FULL_DISK"' });
    expectAgreed(run, [0, 1], { code: 'ERR_CHECKPOINT', rank: 1 });
    for (const { message } of run.raised) expect(message).toMatch(/ENOSPC/);
    expect(run.stdout).not.toContain('saved');
    expect(run.exitCode).toBe(1);
  },
);
