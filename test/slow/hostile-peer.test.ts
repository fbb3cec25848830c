import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { Pair } from 'zeromq';
import { FrameKind } from '../../src/wire/frame';
import { headerOf } from '../support/hostile-peer';
import { FRAME } from '../support/transports';

const VICTIM = path.join(__dirname, 'support/message-victim.js');
const victims: ChildProcess[] = [];
afterEach(() => victims.splice(0).forEach(victim => victim.kill('SIGKILL')));

const MiB = 2 ** 20;
const PART = 16 * MiB;

interface Refusal {
  readonly code: string;
  readonly rank: number;
  readonly message: string;
  readonly before: number;
  readonly most: number;
  readonly after: number;
}

/** What a rank says, and how much memory it took, when rank 1 sends it a body in these parts. */
async function refusalOf(parts: readonly Buffer[]): Promise<Refusal> {
  const [left, right] = [new Pair({ linger: 0 }), new Pair({ linger: 0 })];
  right.bindSync('tcp://127.0.0.1:*');
  const victim = spawn(process.execPath, ['--expose-gc', VICTIM, right.lastEndpoint!], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  victims.push(victim);
  const lines = createInterface({ input: victim.stdout })[Symbol.asyncIterator]();
  const heard = async () => JSON.parse((await lines.next()).value as string) as unknown;
  const { endpoint } = (await heard()) as { endpoint: string };
  left.connect(endpoint);
  const hello = headerOf({ kind: FrameKind.Hello, origin: 1, pid: 1 });
  for (const socket of [left, right]) await socket.send([hello]);
  await heard(); // it is open
  await left.send([headerOf({ ...FRAME, sequence: 0, origin: 1 }), ...parts]);
  const refusal = (await heard()) as Refusal;
  await once(victim, 'close');
  left.close();
  right.close();
  return refusal;
}

test.each([
  ['3,000 parts', Array<Buffer>(2_999).fill(Buffer.alloc(170 * 1024, 1)), 'comes in 3000 parts'],
  [
    'parts as of a large body, but for one',
    [...Array<Buffer>(30).fill(Buffer.alloc(PART, 1)), Buffer.alloc(1), Buffer.alloc(PART, 1)],
    'comes in 33 parts',
  ],
])(
  'a message of 500 MB in %s takes that memory once, until it is refused',
  async (_, parts, words) => {
    const bytes = parts.reduce((sum, { length }) => sum + length, 0);
    const { before, most, after, ...error } = await refusalOf(parts);
    expect(error).toMatchObject({ code: 'ERR_PROTOCOL', rank: 1, message: expect.stringContaining(words) as string });
    expect(most - before).toBeLessThan(bytes + 100 * MiB);
    expect(after - before).toBeLessThan(100 * MiB);
  },
  120_000,
);
