// Loaded before all else in each thread of a rank: notes the folders that the rank makes, and puts proxies before its
// left link and its lane.
import fs from 'node:fs';
import { isMainThread } from 'node:worker_threads';
import type { Connection } from './cut-link';
import { report } from './rank-report';

const { mkdtempSync } = fs;
Object.assign(fs, {
  mkdtempSync: (prefix: string) => {
    const made = mkdtempSync(prefix);
    report({ made });
    return made;
  },
});

if (isMainThread) report({ pid: process.pid });

/** Where the proxies listen, by the rank at the right end of their link. */
type Proxies = Readonly<Record<string, Readonly<Record<Connection, number>>>>;

const proxies = JSON.parse(process.env.CHAOS_PROXIES!) as Proxies;
const ports = proxies[process.env.RANK ?? ''];
if (!isMainThread && ports !== undefined) putProxies(ports);

/** Puts proxies before the left link, and before the lane beside it. */
function putProxies(ports: Readonly<Record<Connection, number>>): void {
  /* eslint-disable @typescript-eslint/no-require-imports -- only here, as no other thread needs them at once */
  const { TcpLane } =
    require('../../src/transport/data/tcp-lane') as typeof import('../../src/transport/data/tcp-lane');
  const { Link } = require('../../src/transport/control/link') as typeof import('../../src/transport/control/link');
  /* eslint-enable */
  const listen = Link.listen.bind(Link);
  Link.listen = (...args) => {
    const { link, endpoint } = listen(...args);
    report({ listening: Number(endpoint.split(':').at(-1)) });
    return { link, endpoint: `tcp://127.0.0.1:${ports.link}` };
  };
  const connect = TcpLane.connect.bind(TcpLane);
  TcpLane.connect = (offer, isEncrypted) => {
    report({ connectingLane: offer.port });
    return connect({ ...offer, port: ports.lane }, isEncrypted);
  };
}
