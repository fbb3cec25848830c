import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { LaunchResult } from '../../src/launcher/conclude';
import { launch } from '../../src/launcher/launch';
import type { LaunchOptions } from '../../src/launcher/launch-options';
import { Capture } from '../launcher/support';
import { cleanUpRanks, foldersLeft, NOTE_FOLDERS } from '../support/rings';

/** 24 rows for each rank at launch, batches of four rows: six steps an epoch, however many ranks are left. */
export const EPOCH_STEPS = 6;

/** The size of the ring in each epoch. */
export const sizesOf = (epochsSeen: readonly { worldSize: number }[]) => epochsSeen.map(({ worldSize }) => worldSize);

/** When, and how, a rank ends itself. */
export interface Doom {
  readonly rank: number;
  readonly epoch: number;
  /** Before that batch, or when the epoch's metrics are known. */
  readonly batch: number | 'end';
  readonly how?: 'SIGKILL' | 'SIGSTOP' | 'throw' | 'hang' | 'exit';
  /** Only so long after that moment. */
  readonly afterMs?: number;
  /** The process that took its place does. */
  readonly again?: boolean;
}

type Compressor =
  'noCompression' | 'gradientDropping' | 'oneBit' | 'ternGrad' | 'qsgd' | 'powerSgd' | 'lowRank' | 'customCompression';

export interface TrainInput {
  readonly epochs: number;
  readonly dooms?: readonly Doom[];
  readonly checkpoint?: boolean;
  readonly optimizerName?: 'momentum' | 'adam';
  /** Another compression than dgc: the function of gradring that makes it. */
  readonly compressor?: Compressor | undefined;
  /** The route of dgc. */
  readonly route?: 'scatter' | undefined;
  /** At the end of these epochs the training waits until a newcomer can be let in. */
  readonly waitForNewcomerAt?: readonly number[];
}

export interface LoopInput {
  /** Whether the thread sleeps in its steps. */
  readonly sync: boolean;
  /** The option of `ring.wrap`. */
  readonly localSteps?: number;
  readonly accumulate?: number;
  /** Whether the variable says which part of the update each step of each rank was. */
  readonly counted?: boolean;
}

export interface RowsInput {
  /** Whether the training is `model.fit` on tensors, and a newcomer takes the place of the rank that is lost. */
  readonly tensors: boolean;
}

export interface AbortInput {
  /** Whether the collective that is aborted is part of `ring.allOrNone`. */
  readonly allOrNone?: boolean;
}

/** What a rank writes when its training has ended, by its number at launch. */
export interface Member {
  readonly at: { readonly step: number; readonly epoch: number };
  readonly epochsSeen: readonly { readonly epoch: number; readonly worldSize: number; readonly loss: number }[];
  readonly hash: string;
  readonly steps: number;
  readonly rank: number;
  readonly worldSize: number;
  readonly generation: number;
  readonly shardRows: number;
}

export interface ElasticRun extends LaunchResult {
  readonly members: readonly (Member | undefined)[];
  /** The launcher's own lines, without what differs from run to run. */
  readonly told: readonly string[];
  readonly output: string;
  /** Folders that the ranks made and did not remove. */
  readonly left: readonly string[];
}

type Fixture =
  | 'train'
  | 'loop'
  | 'rows'
  | 'last-step'
  | 'resumed'
  | 'newcomer-dies'
  | 'background'
  | 'evaluate'
  | 'best'
  | 'validation'
  | 'collectives'
  | 'abort';

/** Launches a fixture of this folder, the training, on four ranks, whatever comes of it. */
export async function runElastic(
  input: TrainInput | LoopInput | RowsInput | AbortInput | Record<string, never>,
  options: Partial<LaunchOptions>,
  fixture: Fixture = 'train',
): Promise<ElasticRun> {
  const folder = mkdtempSync(path.join(tmpdir(), 'gradring-elastic-'));
  const output = new Capture();
  try {
    writeFileSync(path.join(folder, 'input.json'), JSON.stringify(input));
    const result = await launch({
      ranks: 4,
      script: path.join(__dirname, `fixtures/${fixture}.js`),
      stdout: output,
      stderr: output,
      ...options,
      env: {
        ...{ GRADRING_BACKEND: process.env['TEST_BACKEND'] ?? 'cpu', TEST_FOLDER: folder, ...NOTE_FOLDERS },
        ...options.env,
      },
    });
    const members = Array.from({ length: 4 }, (_, rank) => {
      const file = path.join(folder, `member-${rank}.json`);
      return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Member) : undefined;
    });
    const left = foldersLeft();
    const told = output.lines
      .filter(line => line.startsWith('gradring: '))
      .map(line => line.replace(/ \(pid \d+\)/g, ''));
    return { ...result, members, told, output: output.text, left };
  } finally {
    rmSync(folder, { recursive: true, force: true });
    await cleanUpRanks();
  }
}

/** Those that came to the end. All have the same weights, or this fails. */
export function finishedAlike({ members, output, left }: ElasticRun): Member[] {
  const finished = members.filter(member => member !== undefined);
  if (finished.length === 0) throw new Error(`Nobody came to the end:\n${output}`);
  expect(new Set(finished.map(({ hash }) => hash)).size).toBe(1);
  expect(new Set(finished.map(({ steps }) => steps)).size).toBe(1);
  expect(left).toEqual([]);
  return finished;
}
