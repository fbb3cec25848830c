import type { GradringError } from '../../src/errors';
import { Link } from '../../src/transport/control/link';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { FrameKind, type Header, type MailHeader, MailStep, Purpose } from '../../src/wire/frame';
import { besideHostilePeer, headerOf } from '../support/hostile-peer';
import { failureOf, until } from '../support/rings';
import { runnerOf } from '../support/runners';
import { FRAME } from '../support/transports';

const open: { close(): Promise<void> }[] = [];
afterEach(() => Promise.all(open.splice(0).map(each => each.close())));
afterAll(closeAllSockets);

async function ring() {
  const made = await besideHostilePeer();
  open.push(made);
  return made;
}

const abort = (error: object): Header => ({ kind: FrameKind.Abort, origin: 1, error: error as GradringError });
const DATA = headerOf({ ...FRAME, sequence: 0, origin: 1 });
const MiB = 2 ** 20;

describe('what a rank that was let in sends is an error that names it', () => {
  test.each<[string, () => Uint8Array[], string]>([
    ['a message of 3,000 parts', () => [DATA, ...Array<Buffer>(2_999).fill(Buffer.alloc(10))], 'comes in 3000 parts'],
    [
      'parts that no body is split into',
      () => [DATA, Buffer.alloc(16 * MiB), Buffer.alloc(1), Buffer.alloc(1)],
      'comes in 4 parts',
    ],
    ['an error of 2 MB', () => [headerOf(abort({ code: 'ERR_PROTOCOL', message: 'x'.repeat(2e6), details: {} }))], 'has a header of 2000'],
    ['a header of 2 MB', () => [Buffer.alloc(2e6)], 'has a header of 2000000 bytes'],
    ['an unknown error code', () => [headerOf(abort({ code: 'ERR_\x1b[31m', message: '', details: {} }))], 'holds no valid abort text'],
    ['an error of another shape', () => [headerOf(abort({ code: 'ERR_TIMEOUT', message: {}, details: {} }))], 'holds no valid abort text'],
    ['an error about rank -1', () => [headerOf(abort({ code: 'ERR_TIMEOUT', message: '', details: { rank: -1 } }))], 'holds no valid abort text'],
    ['a lane at a name', () => [hello('printer.example', 80)], 'holds no valid greeting'],
    ['a lane at port 0', () => [hello('127.0.0.1', 0)], 'holds no valid greeting'],
  ])('%s', async (_, parts, words) => {
    const { transport, address, failure, say } = await ring();
    const received = transport.links.receive('left', 0);
    await say(parts());
    const expected = { code: 'ERR_PROTOCOL', rank: 1 };
    await expect(received).rejects.toMatchObject(expected);
    expect((await failure).message).toContain(`Rank 1 (${address}) broke the protocol: A frame ${words}`);
  }); // prettier-ignore
});

function hello(host: string, port: number): Uint8Array {
  return headerOf({ kind: FrameKind.Hello, origin: 1, pid: 1, offer: { host, port, token: 'ab'.repeat(64) } });
}

test.each([
  ['is gathered', 4],
  ['is reduced on its way', 60_000],
])('a body of a wrong length, of an array that %s', async (_, elementCount) => {
  const { transport, say } = await ring();
  const { runner, data } = runnerOf(transport, 4 * elementCount);
  const array = { type: 'float32', data, elementCount } as const;
  const reduced = failureOf(runner.run('allReduce', { array, reduction: 'sum', purpose: Purpose.Call }));
  const call = { elementType: 'float32', reduction: 'sum', elementCount } as const;
  await say([headerOf({ ...FRAME, ...call, sequence: 0, origin: 1 }), Buffer.alloc(15)]);
  const error = await reduced;
  expect(error).toMatchObject({ code: 'ERR_PROTOCOL', rank: 1 });
  expect(error.message).toContain('A frame of rank 1 holds 15 bytes where');
});

test('the words of an error that another rank has found move no cursor and forge no line', async () => {
  const { failure, say } = await ring();
  const message = 'gone\x1b]0;title\x07\x9b2J\r\u202egnp.exe';
  const details = { rank: 0, address: 'tcp://\x1b[2J', variable: 'a\nb', operation: 'x'.repeat(5_000) };
  await say([headerOf(abort({ code: 'ERR_TIMEOUT', message, details }))], 0, 1);
  const error = await failure;
  expect(error.message).toBe('gone\\u{1b}]0;title\\u{7}\\u{9b}2J\\u{d}\\u{202e}gnp.exe');
  expect(error.details).toMatchObject({ rank: 0, address: 'tcp://\\u{1b}[2J', variable: 'a\\u{a}b' });
  expect(error.details.operation).toMatch(/^x{1000,1024}… \(5000 characters\)$/);
});

test('aborts without end are not answered without end', async () => {
  const { transport, failure, say } = await ring();
  const parts = [headerOf(abort({ code: 'ERR_TIMEOUT', message: '', details: {} }))];
  const send = jest.spyOn(Link.prototype, 'send');
  const bytesReceived = transport.observer.read('bytesReceived');
  for (let i = 0; i < 1_000; i += 1) await say(parts);
  await until(() => transport.observer.read('bytesReceived') === bytesReceived + 1_000 * parts[0]!.length);
  expect(await failure).toMatchObject({ code: 'ERR_TIMEOUT' });
  expect(send.mock.calls.length).toBeLessThan(10);
  send.mockRestore();
});

describe('messages', () => {
  const mail = (step: MailStep, said: Partial<MailHeader> = {}): Uint8Array =>
    headerOf({
      ...{ kind: FrameKind.Mail, step, origin: 1, other: 1, destination: 0, tag: 0, number: 0, part: 0, bytes: 0 },
      ...{ elementType: 'none', ...said },
    });
  const part = (said: Partial<MailHeader>) => mail(MailStep.Part, { elementType: 'uint8', ...said });
  const PART = 1024 * 1024;

  test.each<[string, () => Uint8Array[][], string]>([
    ['a part that nobody has asked for', () => [[part({ tag: 1, bytes: 1 }), Buffer.alloc(1)]], 'is about a message that nobody sends or receives'],
    ['a part of a later message', () => [[part({ number: 1, bytes: 1 }), Buffer.alloc(1)]], 'is part of a message that was not requested'],
    ['a later part', () => [[part({ part: 1, bytes: 2 * PART }), Buffer.alloc(PART)]], 'is not part 0 of the message'],
    ['a part that is too short', () => [[part({ bytes: 2 }), Buffer.alloc(1)]], 'is not part 0 of the message'],
    ['a part that is too long', () => [[part({ bytes: 2 * PART }), Buffer.alloc(PART + 1)]], 'has too long a body'],
    ['parts of two lengths', () => [[part({ bytes: 2 * PART }), Buffer.alloc(PART)], [part({ part: 1, bytes: PART + 5 }), Buffer.alloc(5)]], 'is not part 1 of the message'],
    ['a message above 4 GiB', () => [[part({ bytes: 2 ** 33 }), Buffer.alloc(PART)]], 'holds no valid message'],
    ['a request with a body', () => [[mail(MailStep.Request), Buffer.alloc(1)]], 'has too long a body'],
    ['a request ahead of its turn', () => [[mail(MailStep.Request, { number: 2 })]], 'asks for a message before'],
    ['an acknowledgement of nothing', () => [[mail(MailStep.Taken)]], 'is about a message that nobody sends or receives'],
    ['another origin', () => [[mail(MailStep.Request, { origin: 0 })]], 'of rank 0 is for the same rank'],
    ['a rank that does not exist', () => [[mail(MailStep.Request, { destination: 2 })]], 'holds no valid message'],
    ['a message to oneself', () => [[mail(MailStep.Request, { destination: 1 })]], 'holds no valid message'],
  ])('%s is an error', async (_, messages, words) => {
    const { transport, address, failure, say } = await ring();
    const received = transport.messenger.receive(1, 0);
    for (const parts of messages()) await say(parts);
    await expect(received).rejects.toMatchObject({ code: 'ERR_PROTOCOL', rank: 1 });
    expect((await failure).message).toContain(`Rank 1 (${address}) broke the protocol: A frame ${words}`);
  }); // prettier-ignore

  test('a receiver that takes nothing gets four parts', async () => {
    const { transport, failure, say } = await ring();
    const send = jest.spyOn(Link.prototype, 'send');
    const sent = transport.messenger.send(1, 0, { elementType: 'uint8', bytes: new Uint8Array(6 * PART) });
    await say([mail(MailStep.Request)]);
    await say([mail(MailStep.Request)]); // repeated
    await until(() => partsIn(send.mock.calls).length >= 4);
    await say([mail(MailStep.Taken)]);
    await until(() => partsIn(send.mock.calls).length >= 5);
    await say([mail(MailStep.Taken, { part: 5 })]);
    expect(partsIn(send.mock.calls)).toEqual(Array(5).fill(PART));
    expect((await failure).message).toContain('says that a part was taken which was not sent');
    await expect(sent).rejects.toMatchObject({ code: 'ERR_PROTOCOL' });
    send.mockRestore();
  });
});

/** The lengths of the bodies that were sent. */
function partsIn(calls: [parts: Uint8Array[]][]): number[] {
  return calls.flatMap(([[, body]]) => (body === undefined ? [] : [body.length]));
}
