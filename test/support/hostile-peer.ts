import { Pair } from 'zeromq';
import type { GradringError } from '../../src/errors';
import { Link } from '../../src/transport/control/link';
import { deferred } from '../../src/transport/deferred';
import { RingTransport } from '../../src/transport/ring-transport';
import { decodeHeader, encodeHeader, FrameKind, type Header } from '../../src/wire/frame';

const OPTIONS = { heartbeatTimeoutMs: 10_000 };
const RING = { ringId: 5n, generation: 0, worldSize: 2 };

/** The first part of a message of rank 1. */
export const headerOf = (header: Header): Uint8Array => encodeHeader(RING, header);

/**
 * A ring of two. Rank 0 is gradring's. Rank 1, on both its sides, was let in, and says what the test likes. It forwards
 * what rank 0 has found, as any rank does, so that rank 0 need not wait for it.
 */
export async function besideHostilePeer() {
  const { link: left, endpoint } = Link.listen('tcp://127.0.0.1:*', OPTIONS);
  const sockets = [new Pair({ linger: 0 }), new Pair({ linger: 0 })] as const;
  const [atLeft, atRight] = sockets;
  atRight.bindSync('tcp://127.0.0.1:*');
  const address = atRight.lastEndpoint!;
  const right = Link.connect(address, OPTIONS);
  atLeft.connect(endpoint);
  const failed = deferred<GradringError>();
  const place = {
    ...RING,
    rank: 0,
    addresses: [endpoint, address],
    isLocal: true,
    hostRuns: [{ first: 0, last: 1 }],
    ranksHere: 2,
    hasCore: false,
    isHere: { left: false, right: false },
  };
  const lanes = { left: undefined, right: undefined };
  const transport = new RingTransport(place, { left, right }, lanes, failed.resolve);
  const opened = transport.open();
  const hello = headerOf({ kind: FrameKind.Hello, origin: 1, pid: 1 });
  for (const socket of sockets) await socket.send([hello]);
  await opened;
  const hear = async (from: Pair, to: Pair) => {
    for (;;) {
      const [bytes] = await from.receive();
      if (bytes!.length === 0) continue; // a sign of life
      const header = decodeHeader(RING, bytes!);
      if (header.kind === FrameKind.Abort && header.origin === 0) await to.send([bytes!]);
    }
  };
  void hear(atLeft, atRight).catch(() => undefined);
  void hear(atRight, atLeft).catch(() => undefined);
  const close = async () => {
    await transport.drop(0);
    for (const socket of sockets) socket.close();
  };
  /** Says something on one side, or on both. */
  const say = async (parts: Uint8Array[], ...at: (0 | 1)[]) => {
    for (const side of at.length === 0 ? [0] : at) await sockets[side]!.send(parts);
  };
  return { transport, address, failure: failed.promise, say, close };
}
