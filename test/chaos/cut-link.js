const { connect, createServer } = require('node:net');

/** Stands between two ranks, and does to their link, and the streams beside it, what networks do. */
class CutLink {
  static async open() {
    const cut = new CutLink();
    /** The link, the stream to the rank on the left, and that from it. */
    cut.proxies = { link: await CutProxy.open(), out: await CutProxy.open(), in: await CutProxy.open() };
    return cut;
  }

  /** Where to connect instead of where the ranks listen. */
  get ports() {
    return Object.fromEntries(Object.entries(this.proxies).map(([name, { port }]) => [name, port]));
  }

  /** Tells where the ranks listen, as far as they have said. */
  tellTargets(targets) {
    for (const [name, port] of Object.entries(targets)) {
      if (port !== undefined) this.proxies[name].tellTarget(port);
    }
  }

  /** @param {string} kind A fault that strikes links. */
  strike(kind, forMs) {
    for (const proxy of Object.values(this.proxies)) proxy.strike(kind, forMs);
  }

  close() {
    for (const proxy of Object.values(this.proxies)) proxy.close();
  }
}

/** Stands between two ends of a connection. */
class CutProxy {
  /** Where one of them listens, as soon as it is told. */
  target = new Promise(resolve => (this.tellTarget = resolve));
  sockets = [];
  held = false;

  static async open() {
    const proxy = new CutProxy();
    proxy.server = createServer({ pauseOnConnect: true }, client => void proxy.join(client));
    await new Promise(resolve => proxy.server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get port() {
    return this.server.address().port;
  }

  async join(client) {
    client.on('error', () => {});
    this.sockets.push(client);
    const target = connect({ port: await this.target, host: '127.0.0.1' });
    this.sockets.push(target);
    for (const [from, to] of [
      [client, target],
      [target, client],
    ]) {
      from.on('data', bytes => {
        if (!this.deaf) to.write(bytes);
      });
      from.on('error', () => {});
      from.on('close', () => {
        if (!this.deaf) to.destroy(); // that it was closed does not pass a cut cable either
      });
      if (!this.held) from.resume();
    }
  }

  strike(kind, forMs) {
    if (kind === 'cut link') this.deaf = true;
    else if (kind === 'slow link') this.hold(forMs);
    else {
      this.server.close(); // nor is there another connection
      for (const socket of this.sockets)
        if (kind === 'reset link') socket.resetAndDestroy();
        else socket.end();
    }
  }

  hold(forMs) {
    this.held = true;
    this.sockets.forEach(socket => socket.pause());
    setTimeout(() => {
      this.held = false;
      this.sockets.forEach(socket => socket.resume());
    }, forMs);
  }

  close() {
    this.sockets.forEach(socket => socket.destroy());
    this.server.close();
  }
}

module.exports = { CutLink };
