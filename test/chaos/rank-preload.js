// Loaded before all else in each thread of a rank: notes the folders that the rank makes, and puts proxies before its
// left link.
const fs = require('node:fs');
const { report } = require('./rank-report');

const { mkdtempSync } = fs;
fs.mkdtempSync = (...args) => {
  const made = mkdtempSync(...args);
  report({ made });
  return made;
};

const { isMainThread } = require('node:worker_threads');
if (isMainThread) report({ pid: process.pid });

const proxyPorts = JSON.parse(process.env.GRADRING_CHAOS_PROXIES)[process.env.RANK];
if (!isMainThread && proxyPorts !== undefined) {
  const { DataStream } = require('../../dist/transport/data/data-stream');
  const { Link } = require('../../dist/transport/control/link');
  const { listen } = Link;
  const { listen: listenBeside } = DataStream;
  let beside; // the last that was made, which is the left link's when that is bound
  DataStream.listen = async (...args) => (beside = await listenBeside.apply(DataStream, args));
  Link.listen = (...args) => {
    if (beside !== undefined) passThrough(beside);
    const { link, endpoint } = listen.apply(Link, args);
    report({ listening: Number(endpoint.split(':').at(-1)) });
    return { link, endpoint: `tcp://127.0.0.1:${proxyPorts.link}` };
  };
}

/** Puts proxies before both connections of a stream. */
function passThrough(stream) {
  report({ listeningBeside: stream.offer.port });
  stream.offer = { ...stream.offer, port: proxyPorts.out };
  const { meet } = stream;
  stream.meet = offer => {
    report({ connectingBeside: offer.port });
    meet.call(stream, { ...offer, port: proxyPorts.in });
  };
}
