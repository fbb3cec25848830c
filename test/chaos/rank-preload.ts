// Loaded before all else in each thread of a rank: notes the folders that the rank makes, and puts proxies before its
// left link.
import fs from 'node:fs';
import { isMainThread } from 'node:worker_threads';
import type { DataStream } from '../../src/transport/data/data-stream';
import type { Offer } from '../../src/wire/frame';
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

const proxies = JSON.parse(process.env.GRADRING_CHAOS_PROXIES!) as Proxies;
const ports = proxies[process.env.RANK ?? ''];
if (!isMainThread && ports !== undefined) putProxies(ports);

/** Puts proxies before the left link, and before the connections of the stream beside it. */
function putProxies(ports: Readonly<Record<Connection, number>>): void {
  /* eslint-disable @typescript-eslint/no-require-imports -- only here, as no other thread needs them at once */
  type Streams = typeof import('../../src/transport/data/data-stream');
  const { DataStream } = require('../../src/transport/data/data-stream') as Streams;
  const { Link } = require('../../src/transport/control/link') as typeof import('../../src/transport/control/link');
  /* eslint-enable */
  const listen = Link.listen.bind(Link);
  const listenBeside = DataStream.listen.bind(DataStream);
  let beside: DataStream | undefined; // the last that was made, which is the left link's when that is bound
  DataStream.listen = async (...args) => (beside = await listenBeside(...args));
  Link.listen = (...args) => {
    if (beside !== undefined) putProxiesBeside(beside, ports);
    const { link, endpoint } = listen(...args);
    report({ listening: Number(endpoint.split(':').at(-1)) });
    return { link, endpoint: `tcp://127.0.0.1:${ports.link}` };
  };
}

function putProxiesBeside(stream: DataStream, ports: Readonly<Record<Connection, number>>): void {
  report({ listeningBeside: stream.offer.port });
  const meet = stream.meet.bind(stream);
  Object.assign(stream, {
    offer: { ...stream.offer, port: ports.out },
    meet: (offer: Offer) => {
      report({ connectingBeside: offer.port });
      meet({ ...offer, port: ports.in });
    },
  });
}
