import path from 'node:path';
import { CollectiveCall, type CollectiveContext, SCRATCH_BYTES } from '../../src/collectives/collective-call';
import { ExchangeHandle } from '../../src/exchange/exchange-handle';
import { GradientExchange, settingsOf } from '../../src/exchange/gradient-exchange';
import { SharedHeap } from '../../src/memory/shared-heap';
import type { ExchangeStep } from '../../src/exchange/messages';
import {
  customCompression,
  lowRank,
  oneBit,
  powerSgd,
  qsgd,
  ternGrad,
} from '../../src/compression/compressors/custom-compression';
import { type Compression, dgc, gradientDropping } from '../../src/compression/dgc-options';
import { GradringError } from '../../src/errors';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';
import { type DataPath, SoloTransport, type Transport } from '../../src/transport/transport';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { random } from '../support/random';
import { runnerOf } from '../support/runners';
import { openTransports } from '../support/transports';

afterAll(closeAllSockets);

const lost = () => Promise.reject(new GradringError('ERR_PEER_LOST', 'Rank 1 is gone.', { rank: 1 }));
const LOST_PATH: DataPath = { media: [], send: lost, forward: lost, receive: lost };

/** A ring of two whose other rank is lost in every collective. */
class LossyTransport extends SoloTransport {
  override readonly worldSize = 2 as 1;
  override readonly isLocal = true;

  override readonly links = LOST_PATH;
  override readonly bulk = LOST_PATH;
}

const VARIABLES = [
  { name: 'matrix', shape: [40, 50] },
  { name: 'bias', shape: [70] },
];
const STEPS = 5;
/** The step whose exchange fails, and is run again by the ranks that are left. */
const FAILING = 2;

/** One rank's exchange, without a comm thread. */
function rankOf(compression: Compression) {
  const line = { start: jest.fn(), conclude: jest.fn(), close: jest.fn() };
  const handle = new ExchangeHandle({ variables: VARIABLES, compression, nesterov: false, route: 'sparse' }, line);
  const heap = new SharedHeap();
  const scratch = heap.allocate(SCRATCH_BYTES);
  const contextOf = (transport: Transport): CollectiveContext => {
    return { transport, kernels: instantiateKernels(heap.memory), memory: heap.memory, scratch };
  };
  const alone = new SoloTransport();
  const exchange = new GradientExchange(alone, handle.plan);
  const run = async (step: ExchangeStep, transport: Transport = alone) => {
    exchange.moveTo(transport);
    return exchange.run(
      new CollectiveCall(contextOf(transport), 0, exchange.fingerprint(settingsOf(step)), transport.links),
      step,
    );
  };
  return { handle, exchange, run };
}

function gradientsOf(step: number): Float32Array[] {
  const next = random(step + 1);
  return VARIABLES.map(({ shape }) => {
    const elementCount = shape.reduce((product, size) => product * size);
    return Float32Array.from({ length: elementCount }, () => (Math.round(next() * 256) - 128) / 16);
  });
}

/** Runs all steps. */
async function train(
  { handle, exchange, run }: ReturnType<typeof rankOf>,
  how: 'undisturbed' | 'failing' | 'failing twice' | 'done by others' | 'passed over by others',
  momentumFactor = 0.5,
  from = 0,
) {
  const updates: number[][][] = [];
  for (let step = from; step < STEPS; step++) {
    const gradients = gradientsOf(step);
    const input = { density: 0.1, momentumFactor, sumOfSquares: 1 };
    const load = () => gradients.forEach((gradient, i) => handle.gradient(i).set(gradient));
    load();
    if (step === FAILING && how !== 'undisturbed') {
      for (let times = how === 'failing twice' ? 2 : 1; times > 0; times--) {
        await expect(run(input, new LossyTransport())).rejects.toMatchObject({ code: 'ERR_PEER_LOST' });
        gradients.forEach((_, i) => handle.gradient(i).fill(Infinity)); // half-finished sums, say
        load();
      }
    }
    if (step === FAILING && how.endsWith('by others')) {
      exchange.conclude(how === 'done by others');
      updates.push(VARIABLES.map(() => []));
      continue;
    }
    await run(input);
    updates.push(VARIABLES.map((_, i) => [...handle.gradient(i)]));
  }
  const state = VARIABLES.flatMap((_, i) => [[...handle.momentum(i)], [...handle.residual(i)]]);
  return { updates, state };
}

const dgcWith = (values: 'float32' | 'float16') => dgc({ sparsity: 0.9, warmUpEpochs: 0, values });

describe.each([
  ['dgc, float32', dgcWith('float32')],
  ['dgc, float16', dgcWith('float16')],
  ['dgc, by scatter', dgc({ sparsity: 0.9, warmUpEpochs: 0, route: 'scatter' })],
  ['gradientDropping', gradientDropping({ sparsity: 0.9 })],
  ['oneBit', oneBit()],
  ['ternGrad', ternGrad()],
  ['qsgd', qsgd()],
  ['powerSgd', powerSgd()],
  ['lowRank', lowRank()],
  ['customCompression', customCompression(path.join(__dirname, '../../docs/how-to/sign-sgd.js'))],
])('%s', (_, compression) => {
  test.each(['failing', 'failing twice'] as const)('a step that is run again, %s, is as if it had not', async how => {
    expect(await train(rankOf(compression), how)).toEqual(await train(rankOf(compression), 'undisturbed'));
  });
});

describe.each(['float32', 'float16'] as const)('values as %s', values => {
  test('a step that only others have done: what was selected counts as sent', async () => {
    const undisturbed = await train(rankOf(dgcWith(values)), 'undisturbed');
    const { updates, state } = await train(rankOf(dgcWith(values)), 'done by others');
    // The momentum of what travels whole is given by the others; the rest is this rank's own.
    const [momentum, residual, , biasResidual] = undisturbed.state;
    expect([state[0], state[1], state[3]]).toEqual([momentum, residual, biasResidual]);
    for (const step of [0, 1, 3, 4]) expect(updates[step]![0]).toEqual(undisturbed.updates[step]![0]);
  });

  test('nothing is lost, nor counted twice: sent and kept is what was accumulated', async () => {
    const { updates, state } = await train(rankOf(dgcWith(values)), 'failing', 0);
    expect(sentAndKept(updates, state)).toEqual(given());
  });

  test('a step that others have passed over: all that was accumulated of the compressed is kept', async () => {
    const { updates, state } = await train(rankOf(dgcWith(values)), 'passed over by others', 0);
    expect(sentAndKept(updates, state)[0]).toEqual(given()[0]);
  });
});

test('a step that only others have done, before this rank knew what it sent: what a compressor kept is dropped', async () => {
  const { state } = await train(rankOf(oneBit()), 'done by others', 0);
  const after = await train(rankOf(oneBit()), 'undisturbed', 0, FAILING + 1);
  expect(state[1]!.some(value => value !== 0)).toBe(true);
  expect(state[1]).toEqual(after.state[1]);
});

/** By variable and element: the sum of all updates and what is in the residual. */
function sentAndKept(updates: number[][][], state: number[][]): number[][] {
  return VARIABLES.map((_, i) =>
    state[2 * i + 1]!.map((kept, element) => updates.reduce((sum, update) => sum + (update[i]![element] ?? 0), kept)),
  );
}

/** By variable and element: the sum of all gradients. */
function given(): number[][] {
  const all = Array.from({ length: STEPS }, (_, step) => gradientsOf(step));
  return VARIABLES.map((_, i) =>
    Array.from(all[0]![i]!, (_, element) => all.reduce((sum, gradients) => sum + gradients[i]![element]!, 0)),
  );
}

test('the momentum of what travels whole is corrected before the step, that of the rest is not', async () => {
  const { handle, run } = rankOf(dgcWith('float32'));
  const step = { density: 0.1, momentumFactor: 0.5, sumOfSquares: 1 };
  handle.gradient(1).fill(8);
  await run(step);
  handle.gradient(0).fill(0);
  handle.gradient(1).fill(1);
  const before = [...handle.momentum(0)];
  await run({ ...step, momentumScale: 0.25 });
  expect(handle.gradient(1)[0]).toBe(0.5 * 0.25 * 8 + 1);
  const after = handle.momentum(0);
  before.forEach((value, i) => expect([0, value / 2]).toContain(after[i]));
});

describe('a ring of three loses a rank in the midst of a sparse reduce-scatter', () => {
  const compression = dgc({ sparsity: 0.9, warmUpEpochs: 0, route: 'scatter' });
  const SHAPES = [...VARIABLES, { name: 'kernel', shape: [30, 20] }];
  const lengths = SHAPES.map(({ shape }) => shape.reduce((product, size) => product * size));
  const gradientOf = (rank: number, step: number, variable: number) => {
    const next = random(100 * rank + 10 * step + variable);
    return Float32Array.from({ length: lengths[variable]! }, () => next() - 0.5);
  };

  function memberOf(transport: Transport, rank: number) {
    const line = { start: jest.fn(), conclude: jest.fn(), close: jest.fn() };
    const handle = new ExchangeHandle({ variables: SHAPES, compression, nesterov: false }, line);
    const exchange = new GradientExchange(transport, handle.plan);
    const run = async (step: number, path = transport.links, at = transport) => {
      lengths.forEach((_, i) => handle.gradient(i).set(gradientOf(rank, step, i)));
      const { memory, data: scratch, kernels } = runnerOf(at, SCRATCH_BYTES);
      const input = { step, density: 0.1, momentumFactor: 0, sumOfSquares: 1 };
      const context = { transport: at, kernels, memory, scratch };
      await exchange.run(new CollectiveCall(context, step, exchange.fingerprint(settingsOf(input)), path), input);
      return lengths.map((_, i) => [...handle.gradient(i)]);
    };
    return { rank, handle, exchange, run, residuals: () => lengths.map((_, i) => [...handle.residual(i)]) };
  }

  // It sends one frame in the pass, and its chunk to both sides; then come the tensors that are sent whole.
  test.each([0, 1, 2, 3])(
    'which sends %i frames more: the others go on alike, and nothing counts twice',
    async frames => {
      const three = await openTransports(3);
      const members = three.ring.map(memberOf);
      const before = await Promise.all(members.map(({ run }) => run(0)));
      const lost = members[2]!.residuals();

      const { links } = three.ring[2]!;
      let left = frames;
      const dying: DataPath = {
        media: [],
        forward: (...args) => links.forward(...args),
        receive: (...args) => links.receive(...args),
        send: async (...args) => {
          if (left-- > 0) return links.send(...args);
          throw await three.ring[2]!.fail(new GradringError('ERR_PEER_LOST', 'Rank 2 is gone.', { rank: 2 }));
        },
      };
      const failed = await Promise.allSettled(members.map(({ rank, run }) => run(1, rank === 2 ? dying : undefined)));
      for (const each of failed) expect(each).toMatchObject({ status: 'rejected', reason: { code: 'ERR_PEER_LOST' } });
      await three.close();

      const two = await openTransports(2);
      const survivors = members.slice(0, 2);
      const updates = [before[0]!];
      for (const { exchange, rank } of survivors) exchange.moveTo(two.ring[rank]!);
      for (let step = 1; step < STEPS; step++) {
        const [one, other] = await Promise.all(
          survivors.map(({ run, rank }) => run(step, two.ring[rank]!.links, two.ring[rank])),
        );
        expect(one).toEqual(other);
        updates.push(one!);
      }
      await two.close();
      expect([...three.failures, ...two.failures].map(({ code }) => code)).toEqual(three.failures.map(() => 'ERR_PEER_LOST')); // prettier-ignore

      for (const [i, length] of lengths.entries()) {
        const gradients = updates.flatMap((_, step) =>
          (step === 0 ? [0, 1, 2] : [0, 1]).map(rank => gradientOf(rank, step, i)),
        );
        const held = survivors.map(({ residuals }) => residuals()[i]!);
        let worst = 0;
        for (let at = 0; at < length; at++) {
          const given = gradients.map(gradient => gradient[at]!);
          const applied = updates.map((update, step) => (step === 0 ? 3 : 2) * update[i]![at]!);
          const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);
          worst = Math.max(worst, Math.abs(sum(given) - lost[i]![at]! - sum(applied) - held[0]![at]! - held[1]![at]!));
        }
        expect(worst).toBeLessThan(1e-5);
      }
    },
  );
});
