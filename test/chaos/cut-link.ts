import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import type { FaultName } from './fault-kinds';

/** The connections between two neighbours: their link, and the lane beside it. */
export type Connection = 'link' | 'lane';

/** Stands between two ranks, and does to their link and their lane what networks do. */
export class CutLink {
  static async open(): Promise<CutLink> {
    return new CutLink({ link: await CutProxy.open(), lane: await CutProxy.open() });
  }

  private constructor(private readonly proxies: Readonly<Record<Connection, CutProxy>>) {}

  /** Where to connect instead of where the ranks listen. */
  get ports(): Record<string, number> {
    return Object.fromEntries(Object.entries(this.proxies).map(([name, { port }]) => [name, port]));
  }

  /** Tells where the ranks listen, as far as they have said. */
  tellTargets(targets: Readonly<Record<Connection, number | undefined>>): void {
    for (const [name, proxy] of Object.entries(this.proxies)) {
      const port = targets[name as Connection];
      if (port !== undefined) proxy.tellTarget(port);
    }
  }

  /** @param kind A fault that strikes links. */
  strike(kind: FaultName, forMs: number): void {
    for (const proxy of Object.values(this.proxies)) proxy.strike(kind, forMs);
  }

  close(): void {
    for (const proxy of Object.values(this.proxies)) proxy.close();
  }
}

/** Stands between two ends of a connection. */
class CutProxy {
  /** Tells where one of them listens. */
  tellTarget!: (port: number) => void;
  private readonly target = new Promise<number>(resolve => (this.tellTarget = resolve));
  private readonly server: Server = createServer(
    { pauseOnConnect: true, allowHalfOpen: true },
    client => void this.join(client),
  );
  private readonly sockets: Socket[] = [];
  private held = false;
  private deaf = false;

  static async open(): Promise<CutProxy> {
    const proxy = new CutProxy();
    await new Promise<void>(resolve => proxy.server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  private async join(client: Socket): Promise<void> {
    client.on('error', () => {});
    this.sockets.push(client);
    const target = connect({ port: await this.target, host: '127.0.0.1', allowHalfOpen: true });
    this.sockets.push(target);
    for (const [from, to] of [
      [client, target],
      [target, client],
    ] as const) {
      from.on('data', bytes => {
        if (!this.deaf) to.write(bytes);
      });
      from.on('end', () => {
        if (!this.deaf) to.end();
      });
      from.on('error', () => {});
      from.on('close', () => {
        if (!this.deaf) to.destroy(); // that it was closed does not pass a cut cable either
      });
      if (!this.held) from.resume();
    }
  }

  strike(kind: FaultName, forMs: number): void {
    if (kind === 'cut link') this.deaf = true;
    else if (kind === 'slow link') this.hold(forMs);
    else {
      this.server.close(); // nor is there another connection
      for (const socket of this.sockets)
        if (kind === 'reset link') socket.resetAndDestroy();
        else socket.end();
    }
  }

  private hold(forMs: number): void {
    this.held = true;
    this.sockets.forEach(socket => socket.pause());
    setTimeout(() => {
      this.held = false;
      this.sockets.forEach(socket => socket.resume());
    }, forMs);
  }

  close(): void {
    this.sockets.forEach(socket => socket.destroy());
    this.server.close();
  }
}
