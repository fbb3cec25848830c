import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type ClusterLoad, routeInTraining, routeTimes } from '../../src/bench/speedup/cluster-model';
import { readConstants } from '../../src/bench/speedup/constants-file';
import { doublings, parseNodes } from '../../src/bench/speedup/nodes';
import type { ScaleResult } from '../../src/bench/scale/result';
import { ringsToMeasure, rowsOf, type ScaleLinks } from '../../src/bench/scale/routes';
import { gradringHere } from '../launcher/run-here';
import { cleanUp, temporaryFolder } from '../launcher/support';
import { CONSTANTS } from './speedup-support';
import { expectBenchRefusal, interruptedBench } from './commands';

afterEach(async () => {
  jest.restoreAllMocks();
  await cleanUp();
});

const LOAD: ClusterLoad = {
  elements: 1e6,
  dgc: {
    whole: { elements: 50_000, entries: 50_000, payloadBytes: 100_000 },
    others: { elements: 950_000, entries: 1000, payloadBytes: 2000 },
  },
  lowRank: [],
};
/** 8 ns a byte. */
const LINKS: ScaleLinks = { linkRate: '1gbit', bitsPerSecond: 1e9, linkDelay: undefined, delayMs: 0 };
const FOUR = { nodes: 4, bitsPerSecond: 1e9 };

describe('the rows', () => {
  test('have each route, beside what was worked out by hand, and mark the one of a training', () => {
    const own = 1e6 * (2 + 1);
    const [sparse, mixed, dense, scatter, ...others] = rowsOf([4], LOAD, LINKS, CONSTANTS);
    // 3 payloads of 102,000 bytes at 8 ns, 2 hops of 1000 ns and 102,000 · 0.5 ns.
    expect(sparse).toEqual({
      ...{ ranks: 4, route: 'sparse', isChosen: false },
      computeMs: (own + 51_000 * (10 + 4 * 5)) / 1e6,
      travelMs: (306_000 * 8 + 2 * 52_000) / 1e6,
      exchangeMs: (own + 51_000 * 30 + 306_000 * 8 + 2 * 52_000) / 1e6,
      sentBytes: 306_000,
    });
    // 3 payloads of 2000 bytes, and 6 rounds of 50,000.
    expect(mixed).toMatchObject({ route: 'mixed', isChosen: true, computeMs: 3.03, sentBytes: 306_000 });
    expect(dense).toMatchObject({ route: 'dense', isChosen: false, computeMs: 3, sentBytes: 6e6 });
    // 3 frames of 2 · 2000 ÷ 4 bytes and their headers, and what the whole tensors send in the ring.
    expect(scatter).toMatchObject({ route: 'scatter', isChosen: false, sentBytes: 3 * 1160 + 300_000 });
    expect(others).toEqual([]);
  });

  test('leave out a route that would be another one', () => {
    const { others } = LOAD.dgc;
    const whole = { elements: 0, entries: 0, payloadBytes: 0 };
    const routes = rowsOf([4], { ...LOAD, dgc: { whole, others } }, LINKS, CONSTANTS).map(({ route }) => route);
    expect(routes).toEqual(['sparse', 'dense', 'scatter']);
  });
});

test('a delay is added to each hop', () => {
  const near = routeTimes('sparse', LOAD, FOUR, CONSTANTS)!;
  const far = routeTimes('sparse', LOAD, { ...FOUR, delayMs: 5 }, CONSTANTS)!;
  expect(far.travelMs - near.travelMs).toBeCloseTo(2 * 5, 9);
  // Six rounds of the ring then take longer than the bytes that they save.
  expect(routeInTraining(LOAD, FOUR, CONSTANTS)).toBe('mixed');
  expect(routeInTraining(LOAD, { ...FOUR, delayMs: 5 }, CONSTANTS)).toBe('sparse');
});

test('a ring that is measured has each route, and all of the rate is left to data', () => {
  const halfLost = { ...CONSTANTS, lineShare: 0.5 };
  const [ring, other] = ringsToMeasure([4, 8], LINKS, halfLost);
  expect([ring!.ranks, other!.ranks]).toEqual([4, 8]);
  expect(ring!.expected.map(({ travelled }) => travelled)).toEqual(['sparse', 'mixed', 'dense', 'scatter']);
  const dense = ring!.expected[2]!;
  expect(dense.sentBytes).toBe(1.5e6);
  expect(dense.travelMs).toBeCloseTo(1.5 * 8, 1);
});

test('a range of ranks has those that are twice the one before, and the last', () => {
  expect(parseNodes('4..4096', 'ranks', doublings)).toEqual([4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]);
  expect(parseNodes('6..50, 3', 'ranks', doublings)).toEqual([3, 6, 12, 24, 48, 50]);
  expect(parseNodes('5..5', 'ranks', doublings)).toEqual([5]);
});

describe('the command', () => {
  const constantsFile = (): string => {
    const file = path.join(temporaryFolder(), 'constants.json');
    writeFileSync(file, JSON.stringify({ constants: CONSTANTS }));
    return file;
  };

  test('with constants from a file it writes a table and an object', async () => {
    const json = path.join(temporaryFolder(), 'result.json');
    const words = ['--constants', constantsFile(), '--measure', 'none', '--ranks', '4..64', '--json', json];
    const end = await gradringHere('bench', 'scale', ...words);
    expect(end).toMatchObject({ exitCode: 0, stderr: '' });
    expect(end.stdout).toMatch(
      /^gradient: resnet50: 25,557,032 elements, 102,228,128 bytes, \d\d,\d{3} elements sent/m,
    );
    expect(end.stdout).toMatch(/^links: 1gbit$/m);
    expect(end.stdout).toMatch(/^ +64 {2}mixed +yes +[\d.]+ +[\d.]+ +[\d.]+ +[\d,]+$/m);
    expect(end.stdout).not.toContain('measured ms');
    const result = JSON.parse(readFileSync(json, 'utf8')) as ScaleResult;
    expect(result).toMatchObject({ bench: 'scale', linkRate: '1gbit', constants: CONSTANTS, checks: [] });
    expect(new Set(result.rows.map(({ ranks }) => ranks))).toEqual(new Set([4, 8, 16, 32, 64]));
    expect(result.rows.filter(({ isChosen }) => isChosen)).toHaveLength(5);
    expect(readConstants(json)).toEqual(CONSTANTS);
  });

  test('of one matrix, which is never mixed', async () => {
    const words = ['--elements', '100000', '--density', '0.01', '--link-rate', '10mbit', '--link-delay', '5ms'];
    const { stdout } = await gradringHere(
      ...['bench', 'scale', '--constants', constantsFile(), '--measure', 'none', '--ranks', '4'],
      ...words,
    );
    expect(stdout).toMatch(/^gradient: one matrix: 100,000 elements, 400,000 bytes, 0 elements sent whole$/m);
    expect(stdout).toMatch(/^links: 10mbit with a delay of 5ms$/m);
    expect(stdout).not.toContain('mixed');
  });

  test.each([
    [['--ranks', '4-64'], "--ranks is '4-64'; it must be numbers from 1 to 65535 and ascending ranges"],
    [['--ranks', '1,2'], "--ranks is '1,2'; a ring has 2 ranks or more"],
    [['--model', 'resnet'], "--model is 'resnet'; it must be one of"],
    [['--elements', '0'], "--elements is '0'; it must be a whole number"],
    [['--density', '0.1,0.2'], "--density is '0.1,0.2'; it must be one number"],
    [['--link-rate', 'fast'], "--link-rate is 'fast'; it must be a rate such as"],
    [['--measure-rate', '1'], "--measure-rate is '1'; it must be a rate such as"],
    [['--link-delay', '5'], "--link-delay is '5'; it must be a time such as 50ms"],
    [['--measure', '1'], "--measure is '1'; a ring has 2 ranks or more"],
    [['--constants', '/nowhere/x.json'], "--constants is '/nowhere/x.json', which cannot be read: ENOENT"],
    [['--json', '/nowhere/x.json'], "--json is '/nowhere/x.json', but /nowhere does not exist"],
    [['--rank', '5'], 'Unknown option: --rank. Did you mean --ranks?'],
  ] as const)('a wrong command line is one line and exit code 2: %j', (args, words) =>
    expectBenchRefusal(['scale', ...args], words),
  );

  test('Ctrl-C while a ring is measured shows what is expected, and leaves no rank', async () => {
    const words = ['--constants', constantsFile(), '--measure', '2', '--measure-rate', '100kbit', '--ranks', '4'];
    const output = await interruptedBench(['scale', ...words]);
    expect(output).toMatch(/^ +4 {2}mixed +yes /m);
    expect(output).not.toContain('measured ms');
  });
});
