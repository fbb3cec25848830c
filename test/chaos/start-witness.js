// Loaded before all else in each thread of a rank: tells what part it has in an elastic run, and when it connects to
// its neighbour, for then the rendezvous is over.
const { isMainThread, workerData } = require('node:worker_threads');
const { report } = require('./rank-report');

const role = process.env.GRADRING_ELASTIC;
if (isMainThread && role !== undefined) report({ role });

const isCommThread = workerData !== null && 'options' in workerData;
if (isCommThread) {
  const { Link } = require('../../dist/transport/control/link');
  const { connect } = Link;
  Link.connect = (...args) => {
    report({ started: true });
    return connect.apply(Link, args);
  };
}
