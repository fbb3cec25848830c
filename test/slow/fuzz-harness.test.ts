import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Kernels } from '../../src/kernels/kernels';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';
import { fuzz, type Target } from '../fuzz/fuzz';
import { gradientPayloadTarget } from '../fuzz/gradient-payload';
import { mutateBytes } from '../fuzz/mutate-bytes';
import { PayloadChecker } from '../fuzz/payload-checker';
import { Random } from '../fuzz/random';
import { KernelTrace } from '../fuzz/traced-kernels';

const SCRIPT = path.join(__dirname, '../../scripts/fuzz.js');
const PLANTED_BUG = path.join(__dirname, '../fuzz/planted-bug.js');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'gradring-fuzz-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs Node with those arguments in the folder. */
function node(...args: string[]): Promise<{ exitCode: number; stdout: string; stderr: string }> {
  return new Promise(resolve =>
    execFile(process.execPath, args, { cwd: folder }, (error, stdout, stderr) =>
      resolve({ exitCode: Number(error?.code ?? 0), stdout, stderr }),
    ),
  );
}

describe('npm run fuzz', () => {
  it('leaves the input of a crash in a file, which crashes again', async () => {
    const { exitCode, stdout } = await node('-r', PLANTED_BUG, SCRIPT, '--target', 'frame', '--inputs', '5000');
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(/frame: CRASH:[^]*a planted bug/);
    const [file] = readdirSync(folder) as [string];
    expect(stdout).toContain(`--target frame --replay ${file}`);
    const again = await node('-r', PLANTED_BUG, SCRIPT, '--target', 'frame', '--replay', file);
    expect(again.exitCode).not.toBe(0);
    expect(again.stderr).toMatch(/a planted bug/);
    const mended = await node(SCRIPT, '--target', 'frame', '--replay', file);
    expect(mended.exitCode).toBe(0);
  });
});

describe('the seeds', () => {
  it('are accepted, and have every code of indices and values in every format', () => {
    const target = gradientPayloadTarget();
    const pairs = new Map<number, Set<string>>();
    for (const { bytes } of target.seeds()) {
      const { outcome, features } = target.run(bytes);
      expect(outcome).toMatch(/^(accepted|not finite at the origin)$/);
      const known = pairs.get(bytes[0]!) ?? new Set<string>();
      for (const pair of KernelTrace.pairs(features!)) known.add(pair);
      pairs.set(bytes[0]!, known);
    }
    expect(pairs.size).toBe(5);
    for (const ofFormat of pairs.values()) {
      expect([...ofFormat]).toEqual(
        expect.arrayContaining([
          'riceDecodeBoth then raiseSymbols', // IndexCode.Rice, and ValueCode.Rising
          'riceDecode then mirrorSymbols', // ValueCode.Falling
          'decodeClusters then riceDecode',
          'decodeSubset then riceDecode',
          'decodeBitmap then unpackBits',
          'unpackBits then unpackBits', // IndexCode.Fixed, or no code where all are left
          'unpackBits then raiseSymbols', // ValueCode.Fixed
          'unpackBits then dequantize', // ValueCode.Plain
        ]),
      );
    }
  });
});

describe('the inputs', () => {
  /** All inputs that the fuzzer makes with that seed. */
  const inputsOf = (seed: number) => {
    const target = gradientPayloadTarget();
    const inputs: Uint8Array[] = [];
    const run: Target['run'] = bytes => {
      inputs.push(bytes);
      return target.run(bytes);
    };
    fuzz({ ...target, run }, { seed, inputs: 600 });
    return Buffer.concat(inputs);
  };

  it('are the same for the same seed', () => {
    expect(inputsOf(3).equals(inputsOf(3))).toBe(true);
    expect(inputsOf(3).equals(inputsOf(4))).toBe(false);
  });
});

test('a mutant is a copy, also of a Buffer', () => {
  const random = new Random(1);
  const seed = Buffer.from('seed');
  const mutants = Array.from({ length: 50 }, () => Buffer.from(mutateBytes(random, seed, seed)).toString('latin1'));
  expect(mutants.filter(mutant => mutant === 'seed').length).toBeLessThan(10);
  expect(seed.toString()).toBe('seed');
});

describe('the checker', () => {
  const crashWith = (makeKernels: (memory: WebAssembly.Memory) => Kernels) =>
    fuzz(gradientPayloadTarget(new PayloadChecker(makeKernels)), { seed: 1, inputs: 6000 }).crash?.error.message;

  /** Kernels of which one does something else. */
  const bugs: [what: string, plant: (good: Kernels, memory: WebAssembly.Memory) => Partial<Kernels>, words: RegExp][] =
    [
      [
        'any symbol as a value',
        good => ({ dequantize: (...args) => good.dequantize(...args) || true }),
        /not finite|old content/,
      ],
      [
        'indices past the end',
        good => ({
          indicesOf: (gaps, count, first, elementCount, indices) =>
            Math.min(elementCount, good.indicesOf(gaps, count, first, elementCount + 1, indices)),
        }),
        /past the end of its tensor/,
      ],
      [
        'indices that do not ascend',
        (good, memory) => ({
          indicesOf: (gaps, count, first, elementCount, indices) => {
            const next = good.indicesOf(gaps, count, first, elementCount, indices);
            if (next !== -1 && count > 1) new Uint32Array(memory.buffer, indices, 2).reverse();
            return next;
          },
        }),
        /do not ascend/,
      ],
      [
        'bits behind the end of a stream',
        good => ({
          riceDecode: (symbols, count, parameter, from, until) => {
            const end = good.riceDecode(symbols, count, parameter, from, until + 64);
            return end === -1 ? end : Math.min(end, until);
          },
        }),
        /old content/,
      ],
      [
        'a write before the workspace',
        (good, memory) => ({
          unpackBits: (...args) => {
            new Uint8Array(memory.buffer)[100] = 0;
            return good.unpackBits(...args);
          },
        }),
        /outside of the workspace/,
      ],
      [
        'a write behind the workspace',
        (good, memory) => ({
          unpackBits: (symbols, count, width, from) =>
            good.unpackBits(memory.buffer.byteLength - 4, count, width, from),
        }),
        /out of bounds/,
      ],
    ];

  it('finds nothing in kernels without a bug', () => {
    expect(crashWith(instantiateKernels)).toBeUndefined();
  });

  it.each(bugs)('finds %s', (_, plant, words) => {
    expect(
      crashWith(memory => {
        const good = instantiateKernels(memory);
        return { ...good, ...plant(good, memory) };
      }),
    ).toMatch(words);
  });
});
