// Rank 0 of two; the test is rank 1. Run: node --expose-gc message-victim.js ENDPOINT-OF-RANK-1
const { readFileSync } = require('node:fs');
const path = require('node:path');
const dist = path.join(__dirname, '../../../dist');
const { Link } = require(`${dist}/transport/control/link`);
const { RingTransport } = require(`${dist}/transport/ring-transport`);

const OPTIONS = { heartbeatTimeoutMs: 60_000 };
const { link: left, endpoint } = Link.listen('tcp://127.0.0.1:*', OPTIONS);
const right = Link.connect(process.argv[2], OPTIONS);
const ring = { ringId: 5n, generation: 0, worldSize: 2 };
const place = { ...ring, rank: 0, addresses: [endpoint, process.argv[2]], isLocal: true, ranksHere: 2, hasCore: false };
/** Bytes. resourceUsage().maxRSS would begin with the peak of the process that started this one. */
const peakMemory = () => 1024 * Number(/VmHWM:\s*(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'))[1]);
const say = value => console.log(JSON.stringify(value));
const transport = new RingTransport(place, { left, right }, { left: undefined, right: undefined }, async error => {
  const most = peakMemory();
  await transport.drop(0);
  for (let i = 0; i < 3; i++) {
    gc();
    await new Promise(resolve => setImmediate(resolve)); // buffers of ZeroMQ's are given back after the collection
  }
  say({ code: error.code, rank: error.rank, message: error.message, before, most, after: process.memoryUsage().rss });
  process.exit();
});
let before;
transport.open().then(() => {
  gc();
  before = process.memoryUsage().rss;
  say({ isOpen: true });
});
say({ endpoint });
