import type { DenseArray } from '../collectives/dense-array';
import { ELEMENT_BYTES } from '../collectives/element-type';
import type { ElementType } from '../kernels/kernels';
import type { TrafficCount } from '../transport/transport';
import { Purpose } from '../wire/frame';
import { type CommandName, type Reduction, REDUCTIONS, type Request } from './thread-protocol';

/** The commands of which some numbers tell all. */
const NAMES: readonly CommandName[] = ['allReduce', 'reduceScatter', 'broadcast', 'barrier', 'sendReceive'];
const TYPES = Object.keys(ELEMENT_BYTES) as ElementType[];

/** Their inputs together: each has some of these. */
interface Input {
  readonly array: DenseArray;
  readonly reduction: Reduction;
  readonly root: number;
  readonly purpose: Purpose;
}

const NOTHING: Input = {
  array: { type: 'float32', data: 0, elementCount: 0 },
  reduction: 'sum',
  root: 0,
  purpose: Purpose.Call,
};

/** Places of float64 numbers: of a request, and of its answer. */
const NUMBER = {
  id: 0,
  name: 1,
  generation: 2,
  type: 3,
  data: 4,
  elementCount: 5,
  reduction: 6,
  root: 7,
  purpose: 8,
  bytesSent: 9,
  bytesReceived: 10,
  count: 11,
} as const;

/**
 * One request between the two threads and its answer, in memory that both see, where some numbers tell all of it.
 * Messages are written and read property by property, which is much of what a small collective takes on these threads.
 *
 * There is one place: only who sleeps until the answer has come may put a request in. A message must tell that it is
 * there, so that it keeps its turn; who answers must wake the sleeper.
 */
export class CallBox {
  private readonly numbers: Float64Array;
  /** Its one word is the id of the request that was answered here last. */
  private readonly answered: Int32Array;
  /** The request that was taken, until it is answered. */
  private taken: number | undefined;

  /** @param memory That of the other end. */
  constructor(readonly memory = new SharedArrayBuffer(8 * (NUMBER.count + 1))) {
    this.numbers = new Float64Array(memory, 0, NUMBER.count);
    this.answered = new Int32Array(memory, 8 * NUMBER.count, 1);
  }

  /** Puts a request in. Returns whether it is one of those that can be. */
  put({ id, name, input, generation }: Request): boolean {
    const number = NAMES.indexOf(name);
    if (number === -1) return false;
    const { array, reduction, root, purpose } = { ...NOTHING, ...(input as Partial<Input>) };
    const { numbers } = this;
    numbers[NUMBER.id] = id;
    numbers[NUMBER.name] = number;
    numbers[NUMBER.generation] = generation;
    numbers[NUMBER.type] = TYPES.indexOf(array.type);
    numbers[NUMBER.data] = array.data;
    numbers[NUMBER.elementCount] = array.elementCount;
    numbers[NUMBER.reduction] = REDUCTIONS.indexOf(reduction);
    numbers[NUMBER.root] = root;
    numbers[NUMBER.purpose] = purpose;
    return true;
  }

  /** The request that was put in. */
  take(): Request {
    const at = (place: number): number => this.numbers[place]!;
    this.taken = at(NUMBER.id);
    const type = TYPES[at(NUMBER.type)]!;
    const array: DenseArray = { type, data: at(NUMBER.data), elementCount: at(NUMBER.elementCount) };
    const reduction = REDUCTIONS[at(NUMBER.reduction)]!;
    const input: Input = { array, reduction, root: at(NUMBER.root), purpose: at(NUMBER.purpose) };
    return { id: this.taken, name: NAMES[at(NUMBER.name)]!, input, generation: at(NUMBER.generation) };
  }

  /** Says that a request is done, without a result, if it is the one that was taken here. */
  answer(id: number, { bytesSent, bytesReceived }: TrafficCount): boolean {
    if (id !== this.taken) return false;
    this.numbers[NUMBER.bytesSent] = bytesSent;
    this.numbers[NUMBER.bytesReceived] = bytesReceived;
    Atomics.store(this.answered, 0, id); // what was written before is seen by who sees this
    return true;
  }

  /** The traffic up to the answer, if that has come here. */
  answerTo(id: number): TrafficCount | undefined {
    if (Atomics.load(this.answered, 0) !== (id | 0)) return undefined; // the word has but 32 bits
    return { bytesSent: this.numbers[NUMBER.bytesSent]!, bytesReceived: this.numbers[NUMBER.bytesReceived]! };
  }
}
