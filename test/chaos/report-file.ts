import { closeSync, existsSync, openSync, readSync } from 'node:fs';
import type { FaultName } from './fault-kinds';

const CHUNK_BYTES = 65_536;

/** What a rank says of the error that it failed with. */
export interface ToldError {
  readonly code?: string | undefined;
  /** The rank that the error names. */
  readonly blamed?: number | undefined;
  /** Where that rank was. */
  readonly address?: string | undefined;
  readonly message: string;
  /** Of an error without a code. */
  readonly stack?: string | undefined;
}

/** The error of a call after the ring had failed, if there was one, and how long the call took. */
export interface ToldAgain {
  readonly code?: string | undefined;
  readonly blamed?: number | undefined;
  readonly ms: number;
}

/** Something that a process reported at a time: one of these. */
export interface Fact {
  /** A `Date.now()`. */
  readonly at: number;
  /** A process began. */
  readonly pid?: number;
  /** Its part in an elastic run. */
  readonly role?: string;
  /** A folder that it made. */
  readonly made?: string;
  /** Where it listens for its left link, and where it connects to the lane beside it. */
  readonly listening?: number;
  readonly connectingLane?: number;
  /** It begins to look for the others; has met them; its ring stands. */
  readonly meets?: true;
  readonly started?: true;
  readonly formed?: true;
  /** It did a step, after which its weights have this hash. */
  readonly step?: number;
  readonly hash?: string | undefined;
  /** It had got so many updates after a step. */
  readonly updates?: number;
  readonly after?: number;
  /** It has so many files open, in this ring. */
  readonly descriptors?: number;
  readonly generation?: number;
  readonly worldSize?: number;
  /** It does to itself what the plan wants. */
  readonly suffers?: FaultName;
  readonly error?: ToldError;
  readonly again?: ToldAgain;
  /** It did all steps, and has so many more files open than after the first. */
  readonly done?: true;
  readonly moreDescriptors?: number;
  /** It has closed its ring. */
  readonly left?: true;
}

/** A process that has reported something, and what. */
export interface Life {
  readonly pid: number;
  readonly facts: Fact[];
}

/** What one process of a run has reported, read as it grows. */
export class ReportFile {
  readonly facts: Fact[] = [];
  private readonly chunk = Buffer.alloc(CHUNK_BYTES);
  private descriptor: number | undefined;
  private rest = '';
  private position = 0;

  constructor(private readonly file: string) {}

  /** Reads what is new. */
  poll(): void {
    if (this.descriptor === undefined && !existsSync(this.file)) return;
    this.descriptor ??= openSync(this.file, 'r');
    let count: number;
    while ((count = readSync(this.descriptor, this.chunk, 0, CHUNK_BYTES, this.position)) > 0) {
      this.position += count;
      const lines = (this.rest + this.chunk.toString('utf8', 0, count)).split('\n');
      this.rest = lines.pop()!;
      this.facts.push(...lines.map(line => JSON.parse(line) as Fact));
    }
  }

  close(): void {
    if (this.descriptor !== undefined) closeSync(this.descriptor);
    this.descriptor = undefined;
  }

  /** The value of a fact, the first of that name. */
  told<K extends keyof Fact>(name: K): Fact[K] | undefined {
    return this.facts.find(fact => name in fact)?.[name];
  }

  /** The value of the last fact of that name: of the last process, where one came after another. */
  last<K extends keyof Fact>(name: K): Fact[K] | undefined {
    return this.facts.findLast(fact => name in fact)?.[name];
  }

  /** When that was told: a `Date.now()`. */
  toldAt(name: keyof Fact): number | undefined {
    return this.facts.find(fact => name in fact)?.at;
  }

  /** The processes that have reported something here, one after the other, each with what it has told. */
  get lives(): Life[] {
    const lives: Life[] = [];
    for (const fact of this.facts) {
      if (fact.pid !== undefined) lives.push({ pid: fact.pid, facts: [] });
      lives.at(-1)?.facts.push(fact);
    }
    return lives;
  }

  /** By step, the hash of the weights after it. */
  get hashes(): { readonly step: number; readonly hash: string | undefined }[] {
    return this.facts.flatMap(({ step, hash }) => (step === undefined ? [] : [{ step, hash }]));
  }
}
