import { connect, createServer, type Socket } from 'node:net';

/** Proxies that keep all bytes that pass, both ways. */
export class Tap {
  private readonly chunks: { bytes: Buffer; sent: boolean }[] = [];
  private readonly servers: ReturnType<typeof createServer>[] = [];
  private readonly sockets: Socket[] = [];

  /** The port of a proxy before another. */
  before(port: number): Promise<number> {
    const server = createServer(client => {
      const target = connect({ port, host: '127.0.0.1' });
      for (const [from, to] of [[client, target], [target, client]] as const) {
        this.sockets.push(from);
        from.on('data', (bytes: Buffer) => this.chunks.push({ bytes, sent: from === client }));
        from.on('error', () => to.destroy());
        from.pipe(to);
      }
    }); // prettier-ignore
    this.servers.push(server);
    return new Promise(resolve => {
      server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port));
    });
  }

  get bytes(): Buffer {
    return Buffer.concat(this.chunks.map(({ bytes }) => bytes));
  }

  /** Those of who connected, as they came, each with how many bytes of the answer had passed before. */
  get sent(): { bytes: Buffer; answered: number }[] {
    let answered = 0;
    return this.chunks.flatMap(({ bytes, sent }) => {
      if (!sent) answered += bytes.length;
      return sent ? [{ bytes, answered }] : [];
    });
  }

  async close(): Promise<void> {
    this.sockets.forEach(socket => socket.destroy());
    await Promise.all(this.servers.map(server => new Promise(resolve => server.close(resolve))));
  }
}
