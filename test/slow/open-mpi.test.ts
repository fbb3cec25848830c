import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Communicator, NumericArray, Reduction } from '../../src/communicator/communicator';
import { cleanUpRanks, closeRing, connectRing, temporaryFolder } from '../support/rings';
import { describeWhere } from '../support/test-where';
import { input, type TypeName, TYPES } from '../collectives/reference';

/** The names that Debian gives, where there may be another MPI beside it. */
const [COMPILER, RUNNER] = ['mpicc.openmpi', 'mpirun.openmpi'];
const isThere = [
  [COMPILER, '-E', '-include', 'mpi.h', '-x', 'c', '/dev/null'],
  [RUNNER, '--version'],
].every(([program, ...args]) => spawnSync(program!, args).status === 0);
const OBSTACLE = isThere ? undefined : 'Open MPI (openmpi-bin, libopenmpi-dev) is not installed';

type MpiType = Exclude<TypeName, 'float16' | 'bfloat16'>; // which MPI does not have
type Op = Exclude<Reduction, 'mean'>;
const MPI_TYPES = Object.keys(TYPES).filter((type): type is MpiType => !/^b?float16$/.test(type));
const OPS: readonly Op[] = ['sum', 'product', 'min', 'max'];
const REDUCING = ['allReduce', 'reduce', 'reduceScatter'] as const;
const MOVING = ['allGather', 'gather', 'scatter', 'allToAll', 'broadcast', 'sendReceive', 'message'] as const;
const IN_GROUPS = ['allReduce', 'reduce', 'reduceScatter', 'gather', 'allToAll', 'broadcast'] as const;

type Name = (typeof REDUCING)[number] | (typeof MOVING)[number];
interface Case {
  readonly name: Name | `group.${(typeof IN_GROUPS)[number]}`;
  readonly type: MpiType;
  readonly op: Op;
  readonly count: number;
  readonly root: number;
}

/** Integers over the whole range of their type, which wrap around; floats whose sums and products are exact. */
function elements(type: MpiType, count: number, rank: number): NumericArray {
  if (!type.startsWith('float')) return input(type, count, rank, 9);
  return new (TYPES[type] as typeof Float64Array)(count).map((_, i) => ((i + 3 * rank) % 7) - 3);
}

describeWhere(OBSTACLE)('Open MPI gives the same', () => {
  afterAll(cleanUpRanks);
  let program: string;
  beforeAll(() => {
    program = path.join(temporaryFolder(), 'open-mpi');
    execFileSync(COMPILER!, ['-O1', '-o', program, path.join(__dirname, 'support/open-mpi.c')]);
  });

  test.each([1, 2, 3])('on %d ranks', async worldSize => {
    const count = 60 * worldSize;
    const last = worldSize - 1;
    const cases: Case[] = [
      ...MPI_TYPES.flatMap(type => [
        ...OPS.flatMap(op => REDUCING.map(name => ({ name, type, op, count: count + 1, root: last }))),
        ...MOVING.map(name => ({ name, type, op: 'sum' as const, count, root: last })),
      ]),
      { name: 'allReduce', type: 'int64', op: 'product', count: 50_001, root: 0 }, // goes round the ring
      ...MPI_TYPES.flatMap((type, i) =>
        IN_GROUPS.map((name, j) => ({
          name: `group.${name}` as const,
          type,
          op: OPS[(i + j) % 4]!,
          count,
          root: last,
        })),
      ),
    ];
    const inputs = cases.map(({ name, type, count, root }) =>
      Array.from({ length: worldSize }, (_, rank) =>
        elements(type, name === 'scatter' && rank === root ? count * worldSize : count, rank),
      ),
    );
    const folder = path.join(temporaryFolder(), 'cases');
    mkdirSync(folder);
    const lines = cases.map(({ name, type, op, count, root }) => [name, type, op, count, root].join(' '));
    writeFileSync(path.join(folder, 'cases.txt'), lines.join('\n'));
    inputs.forEach((ofRanks, i) =>
      ofRanks.forEach((array, rank) => writeFileSync(path.join(folder, `${i}.${rank}.in`), bytesOf(array))),
    );
    // With AVX, Open MPI 4.1 adds bytes without a carry but with a limit: 200 + 100 is 255. Without, they wrap around.
    const args = [
      '--mca',
      'op',
      '^avx',
      '--allow-run-as-root',
      '--oversubscribe',
      '-n',
      String(worldSize),
      program,
      folder,
    ];
    execFileSync(RUNNER!, args, { stdio: 'pipe', timeout: 60_000 });

    const ring = await connectRing(worldSize);
    const results = await Promise.all(ring.map(rank => callAll(rank, cases, inputs)));
    await closeRing(ring);
    const wrong = cases.flatMap((_, i) =>
      results.flatMap((ofRank, rank) =>
        readFileSync(path.join(folder, `${i}.${rank}.out`)).equals(ofRank[i]!) ? [] : [`${lines[i]}, rank ${rank}`],
      ),
    );
    expect(wrong).toEqual([]);
  });
});

async function callAll(whole: Communicator, cases: readonly Case[], inputs: NumericArray[][]): Promise<Buffer[]> {
  const group = (await whole.group(whole.rank === whole.worldSize - 1 ? 1 : 0))!;
  const results: Buffer[] = [];
  for (const [i, { name: inWhich, op, count, ...of }] of cases.entries()) {
    const own = inputs[i]![whole.rank]!.slice();
    const ring = inWhich.startsWith('group.') ? group : whole;
    const root = ring === group ? group.worldSize - 1 : of.root;
    const name = inWhich.replace('group.', '') as Name;
    const call = async (): Promise<NumericArray | NumericArray[] | undefined> => {
      switch (name) {
        case 'allReduce':
        case 'reduceScatter':
          return ring[name](own, { op });
        case 'reduce':
          return ring.reduce(own, { op, root });
        case 'gather':
          return ring.gather(own, { root });
        case 'broadcast':
          return ring.broadcast(own, { root });
        case 'scatter':
          return ring.scatter(own.slice(0, count), { root, ...(ring.rank === root && { from: own }) });
        case 'message': {
          const [to, from] = [
            (ring.rank + root) % ring.worldSize,
            (ring.rank + ring.worldSize - root) % ring.worldSize,
          ];
          if (to === ring.rank) return own;
          const [received] = await Promise.all([ring.receive(from, { tag: i }), ring.send(own, to, { tag: i })]);
          return received;
        }
        default:
          return ring[name](own);
      }
    };
    const result = (await call()) ?? [];
    results.push(Buffer.concat((Array.isArray(result) ? result : [result]).map(bytesOf)));
  }
  return results;
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
}
