// Loaded before all else in each thread of a rank: reports what part it has in an elastic run, and when it connects to
// its neighbour, because then the rendezvous is over.
import { isMainThread, workerData } from 'node:worker_threads';
import { report } from './rank-report';

const role = process.env.GRADRING_ELASTIC;
if (isMainThread && role !== undefined) report({ role });

const isCommThread = workerData !== null && 'options' in workerData;
if (isCommThread) {
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- only here, as no other thread needs it at once
  const { Link } = require('../../src/transport/control/link') as typeof import('../../src/transport/control/link');
  const connect = Link.connect.bind(Link);
  Link.connect = (...args) => {
    report({ started: true });
    return connect(...args);
  };
}
