import { randomUUID } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { link, open, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { attempt } from '../attempt';
import { GradringError } from '../errors';
import { fileModeIn, PRIVATE_FOLDER } from '../file-mode';
import { printable } from '../printable';
import { isListOf, isOptional, isText, isWith } from '../shape';
import { refused, systemCode } from './checkpoint-errors';
import { makeFolder } from './durable-file';
import { isIdentity, isSameProcess, type ProcessIdentity, stateOf, thisProcess } from './process-identity';
import { isNothing, type Ranks, together } from './ranks';

/** Who uses a folder. The lock holds it as JSON. */
interface Claim {
  /** Identifies this use of the folder. */
  readonly token: string;
  /** The id of the run. Empty if it has none. */
  readonly run: string;
  readonly program: string;
  /** As `Date.toISOString` writes it. */
  readonly since: string;
  /** By rank. */
  readonly processes: readonly ProcessIdentity[];
}

const words = { token: isText, run: isText, program: isText, since: isText };
const processes = isListOf(isIdentity);
const isClaim = isWith<Claim>({ ...words, processes });

/** What a rank tells the others before they take the lock. */
interface Part {
  readonly held?: Claim | undefined;
  readonly fresh: Omit<Claim, 'processes'>;
  readonly process: ProcessIdentity;
}

const isPart = isWith<Part>({
  held: isOptional(isClaim),
  fresh: isWith<Part['fresh']>(words),
  process: isIdentity,
});

const LOCK_FILE = 'gradring.lock';

/** What a loss of power may leave of a lock. */
const NOBODY: Claim = { token: '', run: '', program: '', since: '', processes: [] };

/** How often each rank renews the time of the lock file, for hosts that cannot see its process. */
const BEAT_MS = 5_000;

/** A run on another host counts as ended if it has missed this many beats. */
const SILENT_BEATS = 6;

const HELD = new Set<FolderLock>();

/**
 * Lets one run at a time use a folder of checkpoints. The lock is a file that names the processes of the run. It does
 * not count any more when they have ended. Processes of this host can be seen. Those of other hosts renew the time of
 * the file. Within a program, the lock passes to the checkpoint that asks last.
 *
 * If two runs take over the lock of a run that has ended at the same moment, one of them gets it. Two may begin only if
 * a third run comes in that moment, or if the file system has no hard links. The lock is read again before each save,
 * and then one of them is refused.
 */
export class FolderLock {
  private readonly file: string;
  private claim: Claim | undefined;
  private beats: NodeJS.Timeout | undefined;

  /** @param run The id of the run. Empty if it has none. */
  constructor(
    private readonly dir: string,
    private readonly run: string,
    private readonly beatMs = BEAT_MS,
  ) {
    this.file = join(dir, LOCK_FILE);
  }

  /**
   * Takes the lock, or checks that this run still has it, on all ranks together. Each looks into its own folder, which
   * is made if it is missing.
   *
   * @param isOptional Whether a folder that cannot be written needs no lock.
   * @throws GradringError on every rank `ERR_CHECKPOINT_IN_USE` if another run, or another checkpoint of this program,
   *   uses the folder of one; `ERR_CHECKPOINT` if one cannot write the lock. And what a collective throws.
   */
  async hold(ranks: Ranks, isOptional: boolean): Promise<void> {
    const since = new Date().toISOString();
    const fresh = { token: randomUUID(), run: this.run, program: process.argv[1] ?? 'node', since };
    const all = await together(ranks, isPart, () => ({ held: this.claim, fresh, process: thisProcess() }));
    // A rank that has joined the others lacks their claim.
    const held = all.find(each => each.held !== undefined)?.held;
    const claim = { ...(held ?? all[0]!.fresh), processes: all.map(each => each.process) };
    await together(ranks, isNothing, async () => {
      try {
        await makeFolder(this.dir, PRIVATE_FOLDER);
        await this.take(claim, held !== undefined, ranks.rank === 0);
      } catch (error) {
        const failure = error instanceof GradringError ? error : refused('write', this.file, error);
        if (!isOptional || failure.code === 'ERR_CHECKPOINT_IN_USE') throw failure;
      }
    });
    this.claim = claim;
    this.beats ??= setInterval(() => void this.beat(claim), this.beatMs).unref();
    HELD.add(this);
    process.off('exit', releaseAll).once('exit', releaseAll);
  }

  /** Gives the lock back, if this rank has it. */
  release(): void {
    const { claim } = this;
    clearInterval(this.beats);
    [this.claim, this.beats] = [undefined, undefined];
    HELD.delete(this);
    try {
      if (parse(readFileSync(this.file, 'utf8')).token === claim?.token) rmSync(this.file);
    } catch {
      // It is gone, or stays, and does not count any more when this process has ended.
    }
  }

  private async take(claim: Claim, isHeld: boolean, prints: boolean): Promise<void> {
    for (;;) {
      const found = await this.read();
      if (found?.token === claim.token) {
        const isSame = JSON.stringify(found.processes) === JSON.stringify(claim.processes);
        if (!isSame) await this.write(claim, rename); // ranks of an elastic run have left or joined
        return;
      }
      if (found !== undefined) {
        const isOwn = found.processes.some(theirs => claim.processes.some(own => isSameProcess(own, theirs)));
        const isTaken = isHeld && found !== NOBODY;
        if (isTaken || (!isOwn && (await this.isInUse(found, prints)))) {
          throw this.inUse(found, isOwn, isTaken ? 'has been taken over by' : 'is in use by');
        }
        if ((await this.read())?.token === found.token) await this.remove(found);
      }
      if (await this.write(claim, link)) return;
    }
  }

  private async isInUse({ token, since, processes }: Claim, prints: boolean): Promise<boolean> {
    const states = processes.map(stateOf);
    if (states.includes('runs') || !states.includes('elsewhere')) return states.includes('runs');
    const seconds = Math.ceil((SILENT_BEATS * this.beatMs) / 1000);
    const words = `was in use by a run on ${processes[0]!.host} since ${since}. It takes ${seconds} s to see whether that has ended.`;
    if (prints) console.error(`gradring: ${this.dir} ${words}`);
    const before = await this.timeOfBeat();
    for (let beats = 0; beats < SILENT_BEATS; beats++) {
      await sleep(this.beatMs);
      if ((await this.timeOfBeat()) !== before) return (await this.read())?.token === token;
    }
    return false;
  }

  private inUse({ run, program, since, processes }: Claim, isOwn: boolean, how: string): GradringError {
    const { pid, host } = processes.find(each => stateOf(each) === 'runs') ?? processes[0]!;
    const others = processes.length === 1 ? '' : ` and ${processes.length - 1} more`;
    const who = isOwn
      ? `another checkpoint of this program, since ${since}. Give each checkpoint a folder of its own.`
      : `another run${run && ` (${run})`}: ${program}, process ${pid} on ${host}${others}, since ${since}. Give each run a folder of its own, or wait until that run has ended.`;
    return new GradringError('ERR_CHECKPOINT_IN_USE', `The checkpoint folder ${this.dir} ${how} ${printable(who)}`);
  }

  private async beat({ token }: Claim): Promise<void> {
    const now = new Date();
    const found = await this.read().catch(() => undefined);
    if (found?.token === token) await utimes(this.file, now, now).catch(() => undefined);
  }

  /** Removes a lock that was read. Another run may have replaced it since: then that run's lock stays. */
  private async remove({ token }: Claim): Promise<void> {
    const aside = `${this.file}.${randomUUID()}`;
    try {
      await rename(this.file, aside); // what is moved cannot be replaced any more
      const moved = parse(await readFile(aside, 'utf8'));
      if (moved.token !== token) await rename(aside, this.file); // also over one that another rank has written meanwhile
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error; // another run has moved it
    } finally {
      await rm(aside, { force: true });
    }
  }

  /** Opens the file, because over a network the time is mostly read anew only then. */
  private async timeOfBeat(): Promise<number | undefined> {
    const file = await open(this.file).catch(() => undefined);
    try {
      return (await file?.stat())?.mtimeMs;
    } finally {
      await file?.close();
    }
  }

  /** Undefined if there is no lock. */
  private async read(): Promise<Claim | undefined> {
    try {
      return parse(await readFile(this.file, 'utf8'));
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined;
      throw error;
    }
  }

  /**
   * Writes the lock, whole or not at all.
   *
   * @param place `link`, so that an existing lock stays, or `rename`, so that it is replaced.
   * @returns Whether it was written.
   */
  private async write(claim: Claim, place: typeof link): Promise<boolean> {
    const own = `${this.file}.${randomUUID()}`;
    try {
      await writeFile(own, JSON.stringify(claim), { flag: 'wx', mode: fileModeIn(this.dir) });
      await place(own, this.file).catch(error => {
        if (systemCode(error) === 'EEXIST') throw error;
        return rename(own, this.file); // not every file system has links
      });
      return true;
    } catch (error) {
      if (systemCode(error) === 'EEXIST') return false;
      throw error;
    } finally {
      await rm(own, { force: true });
    }
  }
}

function releaseAll(): void {
  for (const lock of HELD) lock.release();
}

function parse(text: string): Claim {
  const claim = attempt((): unknown => JSON.parse(text));
  return isClaim(claim) && claim.processes.length > 0 ? claim : NOBODY;
}
