// Loaded before all else in each thread of a rank: notes the folders that the rank makes, and puts a proxy before its
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

const proxyPorts = JSON.parse(process.env.GRADRING_CHAOS_PROXIES);
const proxyPort = proxyPorts[process.env.RANK];
if (!isMainThread && proxyPort !== undefined) {
  const { Link } = require('../../dist/transport/link');
  const { listen } = Link;
  Link.listen = (...args) => {
    const { link, endpoint } = listen.apply(Link, args);
    report({ listening: Number(endpoint.split(':').at(-1)) });
    return { link, endpoint: `tcp://127.0.0.1:${proxyPort}` };
  };
}
