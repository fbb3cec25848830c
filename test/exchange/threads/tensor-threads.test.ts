import { readdirSync } from 'node:fs';
import * as addressSpace from '../../../src/address-space';
import * as sparseAllReduce from '../../../src/collectives/sparse-all-reduce';
import { CollectiveCall, SCRATCH_BYTES } from '../../../src/collectives/collective-call';
import { Communicator } from '../../../src/communicator/communicator';
import { CodedTreatment } from '../../../src/compression/compressors/coded-treatment';
import { lowRank } from '../../../src/compression/compressors/custom-compression';
import { type Compression, dgc, type DgcOptions } from '../../../src/compression/dgc-options';
import { GradientCodec } from '../../../src/compression/gradient-codec';
import * as gradientStreams from '../../../src/compression/gradient-streams';
import { LargestTreatment } from '../../../src/compression/tensor-treatment';
import type { ValueFormat } from '../../../src/compression/value-format';
import { ExchangeHandle } from '../../../src/exchange/exchange-handle';
import * as divideMessages from '../../../src/exchange/routes/divide-messages';
import { GradientExchange, settingsOf } from '../../../src/exchange/gradient-exchange';
import { instantiateKernels } from '../../../src/kernels/wasm-kernels';
import { SharedHeap } from '../../../src/memory/shared-heap';
import { SoloTransport } from '../../../src/transport/transport';
import * as compressorMessages from '../../../src/wire/compressor-messages';
import { casesOf } from '../../support/cases';
import { random } from '../../support/random';
import { closeRing, freePort, until } from '../../support/rings';

/** Three sections, and so many elements that helpers are woken. */
const VARIABLES = [
  { name: 'first', shape: [1400, 800] },
  { name: 'bias', shape: [400] },
  { name: 'middle', shape: [3, 3, 200, 200] },
  { name: 'next', shape: [1000, 700] },
  { name: 'last', shape: [1100, 1000] },
];
const SECTIONS = 3;
/** All but the bias. */
const NOT_WHOLE = 4;
const OPTIONS: DgcOptions = { sparsity: 0.85, warmUpSteps: 0 };
/** Helpers take part when they have started. */
const MOST_STEPS = 100;

const heap = new SharedHeap();
const open: GradientExchange[] = [];

afterEach(() => {
  for (const exchange of open.splice(0)) exchange.close();
  jest.restoreAllMocks();
});

/** The exchange of a rank that is alone. */
function rankOf(threads: number, options = OPTIONS, arenaBytes = 2 ** 32, compression: Compression = dgc(options)) {
  const line = { start: jest.fn(), conclude: jest.fn(), close: jest.fn() };
  const input = { variables: VARIABLES, compression, nesterov: true, route: 'sparse', threads } as const;
  const handle = new ExchangeHandle({ ...input, arenaBytes }, line);
  const transport = new SoloTransport();
  const exchange = new GradientExchange(transport, handle.plan);
  open.push(exchange);
  const scratch = heap.allocate(SCRATCH_BYTES);
  const context = { transport, kernels: instantiateKernels(heap.memory), memory: heap.memory, scratch };
  const density = 1 - (options.sparsity as number);
  /** The bytes of the update and of the state after a step. */
  const run = async (number: number): Promise<Buffer[]> => {
    gradientsOf(number).forEach((gradient, v) => handle.gradient(v).set(gradient));
    const step = { step: number, density, momentumFactor: 0.9, sumOfSquares: 1 };
    await exchange.run(new CollectiveCall(context, 0, exchange.fingerprint(settingsOf(step)), transport.links), step);
    const views = VARIABLES.flatMap((_, v) => [handle.gradient(v), handle.momentum(v), handle.residual(v)]);
    return views.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength));
  };
  return { handle, exchange, run };
}

function fill(gradient: Float32Array, seed: number): void {
  const next = random(seed + 1);
  for (let i = 0; i < gradient.length; i++) gradient[i] = next() - 0.5;
}

let drawn: { step?: number; gradients: Float32Array[] } = { gradients: [] };

/** The gradients of a step. Those of the last step are kept: one rank takes them after the other. */
function gradientsOf(step: number): readonly Float32Array[] {
  if (drawn.step !== step) {
    const gradients = VARIABLES.map(
      ({ shape }) => new Float32Array(shape.reduce((product, size) => product * size, 1)),
    );
    gradients.forEach((gradient, v) => fill(gradient, 100 * step + v));
    drawn = { step, gradients };
  }
  return drawn.gradients;
}

/** Counts what this thread does by itself in a step, and how many sections it joins. */
function watch() {
  const spies = {
    compress: jest.spyOn(LargestTreatment.prototype, 'compress'),
    settle: jest.spyOn(LargestTreatment.prototype, 'settle'),
    encode: jest.spyOn(GradientCodec.prototype, 'encodeSection'),
    average: jest.spyOn(sparseAllReduce, 'sumSection'),
  };
  const joined = jest.spyOn(gradientStreams, 'joinSections');
  return () => {
    const sections = joined.mock.calls[0]?.[0].length ?? 0;
    const own = Object.fromEntries(Object.entries(spies).map(([work, { mock }]) => [work, mock.calls.length]));
    for (const spy of [...Object.values(spies), joined]) spy.mockClear();
    return { sections, ...(own as Record<keyof typeof spies, number>) };
  };
}

test.each(casesOf<ValueFormat>(['float16', 'int8'], ['float32', 'log4']))('%s: helpers change no bit', async values => {
  const [alone, helped] = [rankOf(1, { ...OPTIONS, values }), rankOf(3, { ...OPTIONS, values })];
  const own = watch();
  const seen = { compress: false, encode: false, average: false, settle: false };
  for (let step = 0; step < MOST_STEPS && Object.values(seen).includes(false); step++) {
    const expected = await alone.run(step);
    expect(own()).toEqual({ sections: 0, compress: NOT_WHOLE, settle: NOT_WHOLE, encode: 0, average: SECTIONS });
    const actual = await helped.run(step);
    const { sections, compress, encode, average, settle } = own();
    expect(sections).toBe(SECTIONS);
    seen.compress ||= compress < NOT_WHOLE;
    seen.settle ||= settle < NOT_WHOLE;
    seen.encode ||= encode < SECTIONS;
    seen.average ||= average < SECTIONS;
    expect(actual.map((bytes, i) => bytes.equals(expected[i]!))).toEqual(actual.map(() => true));
  }
  expect(seen).toEqual({ compress: true, encode: true, average: true, settle: true });
});

describe('low rank', () => {
  const lowRankOn = (threads: number, arenaBytes?: number) => rankOf(threads, OPTIONS, arenaBytes, lowRank());

  test.each([
    ['one arena', 2 ** 32],
    ['several arenas', 24 * 2 ** 20],
  ])('helpers write and add messages, and change no bit: %s', async (_, arenaBytes) => {
    const [alone, helped] = [lowRankOn(1, arenaBytes), lowRankOn(3, arenaBytes)];
    expect(helped.handle.plan.arenas.length > 1).toBe(arenaBytes < 2 ** 32);
    const spies = (['message', 'average'] as const).map(work => jest.spyOn(CodedTreatment.prototype, work));
    const own = () => spies.map(spy => spy.mock.calls.length);
    const seen = [false, false];
    for (let step = 0; step < MOST_STEPS && seen.includes(false); step++) {
      const expected = await alone.run(step);
      expect(own()).toEqual([VARIABLES.length, VARIABLES.length]);
      spies.forEach(spy => spy.mockClear());
      const actual = await helped.run(step);
      own().forEach((calls, i) => (seen[i] ||= calls < VARIABLES.length));
      spies.forEach(spy => spy.mockClear());
      expect(actual.map((bytes, i) => bytes.equals(expected[i]!))).toEqual(actual.map(() => true));
    }
    expect(seen).toEqual([true, true]);
  });

  /** Runs steps until helpers take part in them. Returns the number of the next step. */
  async function untilHelped(ranks: readonly ReturnType<typeof rankOf>[]): Promise<number> {
    const spy = jest.spyOn(CodedTreatment.prototype, 'average');
    for (let step = 0; step < MOST_STEPS; step++) {
      spy.mockClear();
      for (const rank of ranks) await rank.run(step);
      if (spy.mock.calls.length < ranks.length * VARIABLES.length) {
        spy.mockRestore();
        return step + 1;
      }
    }
    throw new Error('Helpers never took part.');
  }

  test('a message that is bad is told by a helper that reads it, and the next step is as ever', async () => {
    const [alone, helped] = [lowRankOn(1), lowRankOn(3)];
    const next = await untilHelped([alone, helped]);
    const { encodeMessages } = compressorMessages;
    jest
      .spyOn(compressorMessages, 'encodeMessages')
      .mockImplementation(messages => encodeMessages(messages.map(each => each.subarray(0, each.length >> 1))));
    // This thread reads nothing, and leaves the helpers the time to take something.
    jest.spyOn(CodedTreatment.prototype, 'average').mockImplementation(() => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    });
    const state = VARIABLES.flatMap((_, v) => [helped.handle.momentum(v), helped.handle.residual(v)]);
    const before = state.map(view => view.slice());
    let error: unknown;
    for (let i = 0; i < MOST_STEPS && error === undefined; i++) {
      state.forEach((view, each) => view.set(before[each]!)); // this thread was faster, and has taken all messages
      await helped.run(next).catch((thrown: unknown) => (error = thrown));
    }
    expect(error).toMatchObject({ code: 'ERR_PROTOCOL', details: { rank: 0 } });
    jest.restoreAllMocks();
    const expected = await alone.run(next);
    const actual = await helped.run(next); // what was accumulated is not accumulated twice
    expect(actual.map((each, i) => each.equals(expected[i]!))).toEqual(actual.map(() => true));
  });

  test('what was sent leaves the residuals if the others have applied the step, and else does not', async () => {
    const [done, failed, undone] = [lowRankOn(1), lowRankOn(1), lowRankOn(1)];
    const residualsOf = ({ handle }: typeof done) => VARIABLES.map((_, v) => Buffer.from(handle.residual(v).slice().buffer)); // prettier-ignore
    await done.run(0);
    jest.spyOn(compressorMessages, 'decodeMessages').mockImplementation(() => {
      throw new Error('on purpose'); // the messages were written
    });
    for (const rank of [failed, undone]) await expect(rank.run(0)).rejects.toThrow('on purpose');
    jest.restoreAllMocks();
    failed.exchange.conclude(true);
    expect(residualsOf(failed)).toEqual(residualsOf(done));
    undone.exchange.conclude(false);
    VARIABLES.forEach((_, v) => expect(undone.handle.residual(v)).toEqual(gradientsOf(0)[v]));
  });

  test('tensors that the dense ring averages sooner lose nothing there', async () => {
    const [one, other] = [lowRankOn(1), lowRankOn(1)];
    const isDense = (v: number) => v === 0 || v === 3;
    await one.run(0);
    jest.spyOn(divideMessages, 'divideMessages').mockImplementation(messages => ({
      gathered: messages.filter((_, v) => !isDense(v)),
      dense: messages.filter((_, v) => isDense(v)),
    }));
    await other.run(0);
    VARIABLES.forEach((_, v) => {
      const [update, residual] = [other.handle.gradient(v), other.handle.residual(v)];
      if (isDense(v)) {
        expect(residual.every(value => value === 0)).toBe(true);
        const gradient = gradientsOf(0)[v]!;
        expect(update.every((value, i) => Math.abs(value - 1.9 * gradient[i]!) < 1e-6)).toBe(true); // with momentum
      } else {
        expect(Buffer.compare(Buffer.from(update.buffer, update.byteOffset, update.byteLength), Buffer.from(one.handle.gradient(v).slice().buffer))).toBe(0); // prettier-ignore
      }
    });
  });
});

test('helpers work in several arenas', async () => {
  const bytes = Math.max(...rankOf(1).handle.plan.arenas.map(arena => arena.bytes));
  const arenaBytes = Math.ceil(bytes / 2) + 2 ** 20;
  const [alone, helped] = [rankOf(1, OPTIONS, arenaBytes), rankOf(2, OPTIONS, arenaBytes)];
  expect(helped.handle.plan.arenas.length).toBeGreaterThan(1);
  for (let step = 0; step < 3; step++) {
    const expected = await alone.run(step);
    const actual = await helped.run(step);
    expect(actual.map((each, i) => each.equals(expected[i]!))).toEqual(actual.map(() => true));
  }
});

test('where the system has no thread for a helper, the others do its work', async () => {
  const refuse = jest.spyOn(addressSpace, 'requireRoomForThread').mockImplementation(() => {
    throw new Error('no room');
  });
  const [alone, refused] = [rankOf(1), rankOf(3)];
  expect(refuse).toHaveBeenCalledTimes(2);
  const own = watch();
  const expected = await alone.run(0);
  own();
  const actual = await refused.run(0);
  expect(own()).toMatchObject({ sections: 0, compress: NOT_WHOLE, settle: NOT_WHOLE, average: SECTIONS });
  expect(actual.map((each, i) => each.equals(expected[i]!))).toEqual(actual.map(() => true));
});

test('what overflows is told by whichever thread compresses it', async () => {
  const { handle, exchange, run } = rankOf(3);
  const own = watch();
  let step = 0;
  do {
    expect(step).toBeLessThan(MOST_STEPS);
    await run(step++);
  } while (own().compress === NOT_WHOLE);
  handle.residual(2).fill(3e38);
  handle.gradient(2).fill(3e38);
  const overflow = { step, density: 0.15, momentumFactor: 0.9, sumOfSquares: 1 };
  const transport = new SoloTransport();
  const context = { transport, kernels: instantiateKernels(heap.memory), memory: heap.memory, scratch: 0 };
  const call = new CollectiveCall(context, 0, exchange.fingerprint(settingsOf(overflow)), transport.links);
  const result = await exchange.run(call, overflow);
  expect(result.nonFinite).toEqual({ rank: 0, tensor: 2 });
  expect(handle.residual(2).every(value => value === 0)).toBe(true);
});

test('a payload that is bad is told by whichever thread decodes it, and the next step is as ever', async () => {
  const [alone, helped] = [rankOf(1), rankOf(3)];
  const { joinSections } = gradientStreams;
  const damaged = jest.spyOn(gradientStreams, 'joinSections').mockImplementation(sections => {
    const streams = joinSections(sections);
    return { ...streams, sectionEnds: streams.sectionEnds.map(() => 2) };
  });
  await expect(helped.run(0)).rejects.toMatchObject({ code: 'ERR_PROTOCOL', details: { rank: 0 } });
  expect(damaged).toHaveBeenCalled();
  damaged.mockRestore();
  const expected = await alone.run(0);
  const actual = await helped.run(0); // what was accumulated is not accumulated twice
  expect(actual.map((each, i) => each.equals(expected[i]!))).toEqual(actual.map(() => true));
});

test.each([
  ['dgc()', dgc(OPTIONS)],
  ['lowRank()', lowRank()],
])('%s: ranks with several numbers of threads get the same update', async (_, compression) => {
  const [worldSize, masterPort] = [2, await freePort()];
  const ring = await Promise.all(
    [3, 1].map((threads, rank) => Communicator.connect({ rank, worldSize, masterPort, threads })),
  );
  const handles = ring.map(rank => {
    return rank.openExchange({ variables: VARIABLES, compression, nesterov: false, route: 'sparse' });
  });
  expect(handles.map(({ plan }) => plan.arenas[0]!.helperWorkspaces.length)).toEqual([2, 0]);
  for (let number = 0; number < 3; number++) {
    const step = { step: number, density: 0.15, momentumFactor: 0.9, sumOfSquares: 1 };
    const updates = await Promise.all(
      handles.map(async (handle, rank) => {
        VARIABLES.forEach((_, v) => fill(handle.gradient(v), 1000 * rank + 10 * number + v));
        await handle.start(step).promise;
        return VARIABLES.map((_, v) => Buffer.from(handle.gradient(v).slice().buffer));
      }),
    );
    expect(updates[0]!.map((bytes, v) => bytes.equals(updates[1]![v]!))).toEqual(VARIABLES.map(() => true));
    expect(updates[0]!.every(bytes => bytes.some(byte => byte !== 0))).toBe(true);
  }
  // Their sum overflows.
  const step = { step: 3, density: 0.15, momentumFactor: 0.9, sumOfSquares: 1 };
  const results = await Promise.all(
    handles.map(handle => {
      handle.gradient(4).fill(3e38);
      return handle.start(step).promise;
    }),
  );
  for (const { nonFinite } of results) expect(nonFinite).toEqual({ rank: undefined, tensor: 4 });
  await closeRing(ring);
});

const threads = () => readdirSync('/proc/self/task').length;

test('a small model has no helpers', () => {
  const before = threads();
  const line = { start: jest.fn(), conclude: jest.fn(), close: jest.fn() };
  const input = { variables: VARIABLES.slice(1, 3), compression: dgc(OPTIONS), nesterov: true, threads: 3 };
  open.push(new GradientExchange(new SoloTransport(), new ExchangeHandle(input, line).plan));
  expect(threads()).toBe(before);
});

test('helpers end with the exchange', async () => {
  const { exchange, run } = rankOf(3);
  await run(0);
  const before = threads();
  exchange.close();
  await until(() => threads() <= before - 2);
});
