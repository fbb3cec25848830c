import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { listed } from '../counted';
import { MAX_PORT, type PortRange } from '../environment/network';
import { GradringError } from '../errors';
import { addressOf } from '../rendezvous/host-identity';
import { listenInRange } from '../rendezvous/port-range';
import { WakingTimer } from '../waking-time';
import type { Finding } from './finding';
import { ANSWER_MS, describeOutcome, type Outcome, tryPort } from './try-port';

/** What this host's ranks would use. */
export interface OwnPorts {
  /** The address at which they would listen, if it was chosen. Undefined: all. */
  readonly address: string | undefined;
  readonly masterPort: number;
  /** Undefined: ports that the system chooses. */
  readonly range: PortRange | undefined;
}

/** Neither side tries more ports of the other. */
const MOST_PORTS = 3;

/** A message is shorter. */
const MAX_BYTES = 4096;

/** Several strangers may come at once. */
const MAX_CONNECTIONS = 16;

/** Which connections are possible between this host and one on which {@link answerCheck} waits. */
export async function checkConnection(name: string, masterPort: number, own: OwnPorts): Promise<Finding[]> {
  let host: string;
  try {
    host = (await addressOf(name)).address;
  } catch (error) {
    const reason = ((error as Error).cause as Error).message;
    return [finding('Master port', 'problem', `'${name}' names no host: ${reason}`, { host: name })];
  }
  const where = `${name === host ? host : `${name} (${host})`}, port ${masterPort}`;
  const outcome = await tryPort(host, masterPort);
  const details = { host, ports: { [masterPort]: outcome } };
  if (outcome !== 'open') {
    const words = `${where}: ${describeOutcome(outcome, false)}. Does 'npx gradring doctor --listen' run there?`;
    return [finding('Master port', 'problem', words, details)];
  }
  const master = finding('Master port', 'ok', `${where}: open`, details);
  const samples = await openSamples(own);
  const line = new Line(connect({ host, port: masterPort }));
  try {
    line.send({ gradring: 'doctor', ports: samples.ports });
    const ports = portsIn(await line.receive(ANSWER_MS));
    if (ports === undefined) {
      const words = `what answers there is not 'gradring doctor --listen', but perhaps rank 0, so the ports of ranks were not tried`;
      return [master, finding('From here', 'warning', words, { host })];
    }
    return [master, ...(await bothDirections(line, host, ports, samples.ports))];
  } finally {
    line.close();
    samples.close();
  }
}

/**
 * Waits for one {@link checkConnection} of another host, and answers it. It connects to nobody but the host that asks,
 * and there to {@link MOST_PORTS} at most.
 *
 * @param onListening Called when the other host can begin.
 * @throws GradringError `ERR_ADDRESS_IN_USE`
 */
export async function answerCheck(own: OwnPorts, onListening: () => void): Promise<Finding[]> {
  const { address, masterPort } = own;
  const server = createServer();
  server.maxConnections = MAX_CONNECTIONS;
  try {
    await listenAt(server, masterPort, address);
  } catch (cause) {
    const words = `Cannot listen at port ${masterPort}: ${(cause as Error).message}. Give another one to both: --master-port here, and --connect HOST:PORT there.`;
    throw new GradringError('ERR_ADDRESS_IN_USE', words, {}, { cause });
  }
  let samples: Samples | undefined;
  let line: Line | undefined;
  try {
    samples = await openSamples(own);
    onListening();
    const asker = await firstAsker(server);
    line = asker.line;
    line.send({ gradring: 'doctor', ports: samples.ports });
    return await bothDirections(line, asker.host, asker.ports, samples.ports);
  } finally {
    server.close();
    line?.close();
    samples?.close();
  }
}

/** The first that asks as {@link checkConnection} does. Others are sent away, and then nobody is let in any more. */
function firstAsker(server: Server): Promise<{ line: Line; host: string; ports: number[] }> {
  return new Promise(resolve => {
    const lines = new Set<Line>();
    server.on('connection', (socket: Socket) => {
      const line = new Line(socket);
      lines.add(line);
      const host = socket.remoteAddress?.replace(/^::ffff:(?=\d+\.)/, '');
      void line.receive(ANSWER_MS).then(message => {
        lines.delete(line);
        const ports = portsIn(message);
        if (ports === undefined || host === undefined || !server.listening) return line.close();
        server.close();
        for (const stranger of lines) stranger.close();
        resolve({ line, host, ports });
      });
    });
  });
}

/** Tries the other host's ports, as the other host tries those of this one, and tells each other. */
async function bothDirections(
  line: Line,
  host: string,
  theirPorts: readonly number[],
  ownPorts: readonly number[],
): Promise<Finding[]> {
  const tried = theirPorts.map(port => tryPort(host, port));
  const outcomes = await Promise.all(tried);
  line.send({ outcomes });
  const told = outcomesIn(await line.receive(2 * ANSWER_MS), ownPorts.length);
  return [
    ...findingsOf('From here', `to ${host}`, host, theirPorts, outcomes),
    ...(told === undefined
      ? [finding('To here', 'problem', `${host} has not told what it found`, { host })]
      : findingsOf('To here', `from ${host}`, host, ownPorts, told)),
  ];
}

/** One finding for each outcome. */
function findingsOf(
  what: string,
  way: string,
  host: string,
  ports: readonly number[],
  outcomes: readonly Outcome[],
): Finding[] {
  return [...new Set(outcomes)].map(outcome => {
    const those = ports.filter((_, i) => outcomes[i] === outcome);
    const words = `${way}, ${listed('port', those)}: ${describeOutcome(outcome, true)}`;
    const details = { host, ports: Object.fromEntries(those.map(port => [port, outcome])) };
    return finding(what, outcome === 'open' ? 'ok' : 'problem', words, details);
  });
}

function finding(what: string, verdict: Finding['verdict'], words: string, details: Finding['details']): Finding {
  return { what, verdict, words, details };
}

/** Ports at which this host listens during a check. */
interface Samples {
  readonly ports: number[];
  close(): void;
}

/**
 * Listens at the first port of the range, one in the middle and the last.
 *
 * @throws GradringError `ERR_ADDRESS_IN_USE` if none is free.
 */
async function openSamples({ range, address }: OwnPorts): Promise<Samples> {
  const servers: Server[] = [];
  const open = async (port: number) => {
    const server = createServer(socket => socket.destroy());
    await listenAt(server, port, address);
    servers.push(server);
  };
  if (range === undefined) for (let i = 0; i < 2; i += 1) await open(0);
  else {
    const { first, last } = range;
    const middle = Math.floor((first + last) / 2);
    const errors: unknown[] = [];
    for (const from of [last, middle, first])
      await listenInRange({ first: from, last }, open).catch(error => errors.push(error));
    if (servers.length === 0) throw errors.at(-1);
  }
  const ports = servers.map(server => (server.address() as AddressInfo).port).sort((a, b) => a - b);
  return { ports, close: () => servers.forEach(server => server.close()) };
}

/** Messages of the two sides: one JSON object a line. */
class Line {
  private readonly lines: AsyncIterator<string>;

  constructor(private readonly socket: Socket) {
    let bytes = 0;
    socket
      .on('error', () => undefined)
      .on('data', (data: Buffer) => {
        if ((bytes += data.length) > MAX_BYTES) socket.destroy();
      });
    const lines = createInterface({ input: socket });
    socket.on('close', () => lines.close());
    this.lines = lines[Symbol.asyncIterator]();
  }

  send(message: object): void {
    this.socket.write(`${JSON.stringify(message)}\n`);
  }

  /** The next message; undefined if none comes in time. */
  async receive(withinMs: number): Promise<Partial<Record<string, unknown>> | undefined> {
    const timer = new WakingTimer(() => this.socket.destroy(), withinMs);
    try {
      const { value } = (await this.lines.next()) as { value: string | undefined };
      return JSON.parse(value ?? 'null') ?? undefined;
    } catch {
      return undefined; // the message of another program
    } finally {
      timer.cancel();
    }
  }

  close(): void {
    this.socket.destroySoon();
  }
}

async function listenAt(server: Server, port: number, host: string | undefined): Promise<void> {
  await once(server.listen({ port, host, exclusive: true }), 'listening');
}

function portsIn(message: Partial<Record<string, unknown>> | undefined): number[] | undefined {
  const ports = message?.['gradring'] === 'doctor' ? message['ports'] : undefined;
  const areSound = Array.isArray(ports) && ports.length > 0 && ports.length <= MOST_PORTS && ports.every(isPort);
  return areSound ? (ports as number[]) : undefined;
}

function isPort(port: unknown): boolean {
  return Number.isInteger(port) && (port as number) > 0 && (port as number) <= MAX_PORT;
}

function outcomesIn(message: Partial<Record<string, unknown>> | undefined, count: number): Outcome[] | undefined {
  const outcomes = message?.['outcomes'];
  const areSound =
    Array.isArray(outcomes) &&
    outcomes.length === count &&
    outcomes.every(each => /^[A-Za-z]{1,20}$/.test(String(each)));
  return areSound ? outcomes.map(String) : undefined;
}
