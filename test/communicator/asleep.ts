import { createHash } from 'node:crypto';
import type { NumericArray } from '../../src/communicator/communicator';
import { input, reduced, sparseInput, sparseSum } from '../collectives/reference';
import { startRanks } from '../support/rings';

/**
 * Every collective gives asleep what it gives awake. Each rank is a process: two in one thread would wait for each
 * other.
 */
export async function expectSameAsleep(worldSize: number): Promise<void> {
  const ranks = Array.from({ length: worldSize }, (_, rank) => rank);
  const length = 70_001;
  const arrays = ranks.map(rank => input('float32', length, rank, 6));
  const wholes = ranks.map(rank => input('int32', length, rank, 7));
  const sparse = ranks.map(rank => sparseInput(length, 0.01, rank, 8));

  const source = (rank: number) => `
    const decode = (type, text) => new type(new Uint8Array(Buffer.from(text, 'base64')).buffer);
    const tellBytes = array => say(require('node:crypto').createHash('sha256').update(array).digest('hex'));
    const ring = await Communicator.connect();
    const input = await new Promise(resolve => {
      let text = '';
      process.stdin.on('data', data => (text += data)).on('end', () => resolve(JSON.parse(text)));
    });
    const floats = () => decode(Float32Array, input.array);
    const wholes = () => decode(Int32Array, input.whole);
    const pending = ring.allReduce(wholes(), { op: 'max' }); // is done first, although the next call puts us to sleep
    tellBytes(ring.allReduceSync(floats()));
    tellBytes(ring.allReduceSync(floats(), { op: 'mean' }));
    tellBytes(ring.reduceScatterSync(wholes(), { op: 'min' }));
    for (const array of ring.allGatherSync(wholes())) tellBytes(array);
    for (const array of ring.allGatherSync(floats().slice(0, ring.rank), { variableLength: true })) tellBytes(array);
    tellBytes(ring.broadcastSync(floats(), { root: ring.worldSize - 1 }));
    ring.barrierSync();
    tellBytes(ring.sparseAllReduceSync({
      indices: decode(Uint32Array, input.indices), values: decode(Float32Array, input.values), elementCount: ${length},
    }));
    tellBytes(await pending);
    say('rank ${rank} done');`;

  const processes = await startRanks(worldSize, source);
  const text = (array: ArrayBufferView) =>
    Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString('base64');
  processes.forEach(({ child }, rank) => {
    const { indices, values } = sparse[rank]!;
    const [array, whole] = [text(arrays[rank]!), text(wholes[rank]!)];
    child.stdin!.end(JSON.stringify({ array, whole, indices: text(indices), values: text(values) }));
  });

  const least = reduced(wholes, 'min', 'int32');
  const at = (rank: number) => Math.floor((rank * length) / worldSize);
  for (const rank of ranks) {
    const expected = [
      reduced(arrays, 'sum', 'float32'),
      reduced(arrays, 'mean', 'float32'),
      least.slice(at(rank), at(rank + 1)),
      ...wholes,
      ...arrays.map((array, origin) => array.slice(0, origin)),
      arrays[worldSize - 1]!,
      sparseSum(sparse),
      reduced(wholes, 'max', 'int32'),
    ];
    const { stdout, stderr, exitCode } = await processes[rank]!.ended;
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    expect(stdout.trimEnd().split('\n')).toEqual([...expected.map(sha256), `rank ${rank} done`]);
  }
}

function sha256(array: NumericArray): string {
  return createHash('sha256').update(array).digest('hex');
}
