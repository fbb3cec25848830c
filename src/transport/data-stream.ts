import { randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import type { Offer } from '../wire/frame';
import type { Carrier, Taken } from './carrier';
import { deferred } from './deferred';
import { FrameAssembly, headOf } from './frame-assembly';
import { closed, opened } from './open-sockets';

const TOKEN_BYTES = 32;

/** Who connects must have shown the token by then, in ms. */
const TOKEN_MS = 10_000;

/** So many connections that have shown no token yet are held at most. */
const MAX_STRANGERS = 64;

/** Of a neighbour that has left, so long for the first that it sent, if it sent anything. */
const FIRST_WORD_MS = 2000;

/** As the transport's own heartbeats: what lies between two hosts forgets connections on which nothing goes. */
const CONNECTION = { noDelay: true, keepAlive: true, keepAliveInitialDelay: 10_000 };

/**
 * Carries frames of data between hosts over two TCP connections beside the link, one each way. ZeroMQ would hand each
 * frame from thread to thread and copy it once more; here it is read to where it is used, by the thread that uses it.
 *
 * Each end listens for who is to receive from it, and tells where in its greeting. Not for links that are encrypted.
 */
export class DataStream implements Carrier {
  onWake: () => void = () => undefined;
  onLost: () => void = () => undefined;
  readonly looksATurn = 0;
  readonly offer: Offer;
  private readonly token = randomBytes(TOKEN_BYTES);
  private outgoing: Socket | undefined;
  private incoming: Socket | undefined;
  private readonly strangers = new Set<Socket>();
  private isSending = false;
  private readonly assembly = new FrameAssembly();
  private readonly ended = deferred();
  /** Whether anything has come yet. */
  private hasCome = false;
  private isReading = true;
  /** Whether the other end sends no more, and all that it has sent is to be read. */
  private readsToEnd = false;
  /** Whether this end sends no more. */
  private hasLeft = false;
  private broken: Error | undefined;

  private constructor(
    private readonly server: Server,
    host: string,
  ) {
    opened(this);
    const { port } = server.address() as AddressInfo;
    this.offer = { host, port, token: this.token.toString('hex') };
    server
      .unref()
      .on('connection', (socket: Socket) => this.admit(socket))
      .on('error', () => undefined); // one connection could not be accepted
  }

  /** Listens at an address of this host. Undefined where that cannot be: all goes by the link then. */
  static async listen(host: string): Promise<DataStream | undefined> {
    const server = createServer(CONNECTION).listen(0, host);
    try {
      await once(server, 'listening');
      return new DataStream(server, host);
    } catch {
      return undefined;
    }
  }

  get canSend(): boolean {
    return this.outgoing !== undefined;
  }

  get canReceive(): boolean {
    return this.hasCome;
  }

  /** Connects to where the neighbour listens. If that fails, nothing ever comes this way. */
  meet({ host, port, token }: Offer): void {
    if (this.incoming !== undefined) return;
    const { assembly } = this;
    const onread = { buffer: () => assembly.place(), callback: (bytes: number) => this.read(bytes) };
    this.incoming = connect({ ...CONNECTION, host, port, onread });
    this.incoming
      .unref()
      .on('end', () => this.ended.resolve())
      .on('close', () => this.ended.resolve())
      .on('error', () => this.hasCome && this.onLost());
    this.incoming.write(Buffer.from(token, 'hex'));
  }

  takes(): boolean {
    return true;
  }

  put(header: Uint8Array, body: Uint8Array, after: number, bulk: boolean): boolean {
    const { outgoing } = this;
    if (outgoing === undefined) return false;
    if (!this.isSending) {
      const head = headOf(header, body.length, after, bulk);
      this.isSending = true;
      outgoing.cork();
      outgoing.write(head);
      outgoing.write(body, () => this.onWake());
      outgoing.uncork();
    }
    if (outgoing.writableLength > 0 || outgoing.destroyed) return false;
    this.isSending = false;
    return true;
  }

  take(after: number): Taken | undefined {
    if (this.broken !== undefined) throw this.broken;
    const taken = this.assembly.take(after);
    if (taken === undefined) return undefined;
    const free = () => {
      taken.free();
      if (!this.isReading && !this.assembly.isFull) this.readOn();
    };
    if (taken.frame.bulk) return { frame: taken.frame, free };
    free();
    return { frame: taken.frame, free: undefined };
  }

  sleep(): void {
    // The event loop wakes it.
  }

  finish(): void {
    this.hasLeft = true;
    this.letNobodyElseIn();
    this.outgoing?.end();
  }

  otherFinished(): Promise<void> {
    this.readsToEnd = true;
    if (this.incoming === undefined || this.incoming.connecting) this.ended.resolve();
    else this.readOn();
    // What never came may have been sent to somebody who stands between, and never passed on.
    if (!this.hasCome) setTimeout(() => this.ended.resolve(), FIRST_WORD_MS).unref();
    return this.ended.promise;
  }

  close(): void {
    this.hasLeft = true;
    closed(this);
    this.letNobodyElseIn();
    this.outgoing?.destroy();
    this.incoming?.destroy();
  }

  /** Lets in who shows the token, and nobody after that. */
  private admit(socket: Socket): void {
    if (this.strangers.size >= MAX_STRANGERS) {
      socket.destroy();
      return;
    }
    this.strangers.add(socket);
    let shown = Buffer.alloc(0);
    const late = setTimeout(() => socket.destroy(), TOKEN_MS).unref();
    socket
      .unref()
      .on('error', () => undefined) // it is closed then
      .on('close', () => {
        this.strangers.delete(socket);
        if (socket === this.outgoing && !this.hasLeft) this.onLost();
      })
      .on('data', bytes => {
        if (socket === this.outgoing) return; // the other end has nothing to say
        shown = Buffer.concat([shown, bytes]);
        if (shown.length < TOKEN_BYTES) return;
        clearTimeout(late);
        if (shown.length > TOKEN_BYTES || !timingSafeEqual(shown, this.token)) {
          socket.destroy();
          return;
        }
        this.strangers.delete(socket);
        this.outgoing = socket;
        this.letNobodyElseIn();
      });
  }

  private letNobodyElseIn(): void {
    this.server.close();
    for (const socket of this.strangers) socket.destroy();
  }

  private readOn(): void {
    this.isReading = true;
    this.incoming?.resume();
  }

  /** Returns whether to read on. */
  private read(bytes: number): boolean {
    this.hasCome = true;
    try {
      if (this.assembly.advance(bytes)) this.onWake();
      this.isReading = this.readsToEnd || !this.assembly.isFull;
      return this.isReading;
    } catch (error) {
      this.broken = error as Error;
      this.onWake();
      return false;
    }
  }
}
