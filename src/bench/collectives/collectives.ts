import { allGather } from './all-gather';
import { allReduce } from './all-reduce';
import { barrier } from './barrier';
import { allToAll } from './all-to-all';
import { broadcast } from './broadcast';
import type { CollectiveBenchmark, CollectiveName } from './collective-benchmark';
import { gather } from './gather';
import { reduce } from './reduce';
import { reduceScatter } from './reduce-scatter';
import { scatter } from './scatter';
import { send } from './send';
import { sendReceive } from './send-receive';
import { sparseAllReduce } from './sparse-all-reduce';

/** Each collective has a file. To add one, list it here. */
export const COLLECTIVES: readonly CollectiveBenchmark[] = [
  allReduce,
  allGather,
  reduceScatter,
  broadcast,
  barrier,
  reduce,
  gather,
  scatter,
  allToAll,
  sendReceive,
  send,
  sparseAllReduce,
];

export function collectiveNamed(name: CollectiveName): CollectiveBenchmark {
  return COLLECTIVES.find(collective => collective.name === name)!;
}
