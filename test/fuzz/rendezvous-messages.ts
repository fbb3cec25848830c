import { PROTOCOL_VERSION } from '../../src/wire/frame';
import type { RendezvousMessage } from '../../src/wire/rendezvous-message';

/** One message of each kind that ranks and their rendezvous exchange. */
export const MESSAGES: RendezvousMessage[] = [
  {
    ...{
      kind: 'join',
      protocolVersion: PROTOCOL_VERSION,
      runId: 'run-7',
      worldSize: 4,
      rank: 2,
      hostId: '0123456789abcdef',
    },
    ...{ publicKey: 'rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7' },
    ...{ newcomer: true, admits: true, patienceMs: 20_000, agreed: ['auto', '100mbit'] },
  },
  {
    kind: 'roster',
    hostIds: ['aaaa', 'bbbb', 'cccc', 'dddd'],
    publicKeys: ['rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7', '', '', ''],
    ...{ members: [0, 1, 3, 7], generation: 5 },
  },
  { kind: 'listening', rank: 2, endpoint: 'tcp://10.0.0.7:40123' },
  { kind: 'start', ringId: 'fedcba9876543210', endpoints: ['ipc:///tmp/a', 'ipc:///tmp/b', 'tcp://[::1]:4'] },
  { kind: 'connected', rank: 3, lanes: true },
  { kind: 'formed', lanes: true },
  { kind: 'leave', rank: 2 },
  { kind: 'ask', rank: 1 },
  { kind: 'waiting', count: 2 },
  { kind: 'refuse', code: 'ERR_RANK_TAKEN', message: 'Two processes claim rank 1.' },
];
