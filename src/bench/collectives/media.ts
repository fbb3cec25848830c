import type { Communicator, Media } from '../../communicator/communicator';

/** What carries data to a neighbour. */
export type Medium = Media['links'][number];

export const MEDIA: Readonly<Record<Medium, string>> = {
  'shared-memory': 'shared memory between ranks of one host, not encrypted',
  'unix-socket': 'unix sockets between ranks of one host, not encrypted',
  tcp: 'TCP through ZeroMQ, not encrypted',
  'tcp-encrypted': 'TCP through ZeroMQ, encrypted (CURVE)',
  'tcp-lane': 'a TCP connection beside each ZeroMQ link, not encrypted',
  'tcp-lane-encrypted': 'a TCP connection beside each ZeroMQ link, encrypted (TLS)',
};

/** The media that any rank has. All ranks must call it, each with its own. */
export function mediaOfAll(communicator: Communicator, own: readonly Medium[]): Medium[] {
  const all = Object.keys(MEDIA) as Medium[];
  const used = communicator.allReduceSync(
    Int32Array.from(all, medium => Number(own.includes(medium))),
    { op: 'max' },
  );
  return all.filter((_, i) => used[i] === 1);
}
