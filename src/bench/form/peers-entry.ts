/**
 * The program of each process that `gradring bench form` starts: many ranks of one ring. Its argument is the
 * {@link FormCase}; RANK is the number of the process. It writes {@link PeersEvent} objects, one on each line.
 */
import { Communicator } from '../../communicator/communicator';
import { readRankEnvironment } from '../../environment/rank-environment';
import { GradringError } from '../../errors';
import type { FirstPeer, FormCase, PeersEvent } from './form-ring';
import { processUse } from './process-use';

/** All ranks share the processors of one host, so they may take far longer than those of a cluster. */
const PATIENT = { connectTimeoutMs: 3_600_000, timeoutMs: 3_600_000, heartbeatTimeoutMs: 120_000, stallMs: 0 };

async function main({ ranks, processes, ...links }: FormCase): Promise<void> {
  const tell = (event: PeersEvent): void => void process.stdout.write(`${JSON.stringify(event)}\n`);
  const { rank: first, masterAddr, masterPort } = readRankEnvironment();
  // Neighbours are in different processes, so each link is one between processes.
  const own = Array.from({ length: Math.ceil((ranks - first) / processes) }, (_, i) => first + i * processes);
  const place = { worldSize: ranks, masterAddr, masterPort, ...PATIENT, ...links };
  const peers = await Promise.all(own.map(rank => Communicator.connect({ rank, ...place })));
  tell('connected');
  const use = processUse(); // before the barrier, which no rank leaves before all have come
  const rendezvous = rendezvousOf(peers[0]!);
  const barrierMs = await barrierOf(peers);
  tell({ use, ...(first === 0 && { first: { rendezvous, barrierMs } }) });
  await Promise.all(peers.map(peer => peer.close()));
}

/** How long the first of these ranks is in a barrier, in ms. */
async function barrierOf([first, ...others]: readonly Communicator[]): Promise<number> {
  const startedAt = performance.now();
  const rest = others.map(peer => peer.barrier());
  await first!.barrier();
  const ms = performance.now() - startedAt;
  await Promise.all(rest);
  return ms;
}

function rendezvousOf({ observer }: Communicator): FirstPeer['rendezvous'] {
  return {
    messagesReceived: observer.read('rendezvousMessagesReceived'),
    bytesReceived: observer.read('rendezvousBytesReceived'),
    messagesSent: observer.read('rendezvousMessagesSent'),
    bytesSent: observer.read('rendezvousBytesSent'),
  };
}

main(JSON.parse(process.argv[2]!) as FormCase).catch((error: unknown) => {
  console.error(error instanceof GradringError ? `gradring: ${error.code}: ${error.message}` : error);
  process.exit(1);
});
