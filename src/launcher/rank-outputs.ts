import { stripVTControlCharacters } from 'node:util';
import { COLUMNS_VARIABLE } from '../status-line';
import { ErrorOutput, type LastWords } from './error-output';
import type { LaunchPlan } from './launch-options';
import { LineOutput, StatusLine, withoutReplaceable } from './line-output';
import { relayLines } from './line-splitter';
import { forcedColors, rankPrefix } from './rank-colors';
import { openRankLog } from './rank-logs';
import type { RunningRank } from './rank-process';

/** Where the output of all ranks goes: two common streams, and one log for each rank. */
export class RankOutputs {
  /** For the ranks' environment: so that they use the colours of a terminal, and show progress in a line of it. */
  readonly variables: Readonly<Record<string, string>>;
  private readonly out: LineOutput;
  private readonly err: LineOutput;
  private readonly logs: ReadonlyMap<number, LineOutput>;
  private readonly errorOutputs = new Map<number, ErrorOutput>();

  /** @throws GradringError `ERR_INVALID_ARGUMENT` if a log cannot be opened. */
  constructor(private readonly plan: LaunchPlan) {
    this.logs = this.openLogs(); // first: what follows leaves listeners on the streams
    const [out, err] = [plan.stdout, plan.stderr] as Partial<NodeJS.WriteStream>[];
    const status = new StatusLine();
    this.out = new LineOutput(plan.stdout, undefined, out.isTTY ? status : undefined);
    this.err = new LineOutput(plan.stderr, undefined, err.isTTY ? status : undefined);
    const prefixWidth = plan.prefix ? `[${this.nameOf(plan.firstRank)}] `.length : 0;
    this.variables = {
      ...(err.isTTY && err.columns ? { [COLUMNS_VARIABLE]: String(err.columns - prefixWidth) } : {}),
      ...forcedColors(plan.stdout, { ...process.env, ...plan.env }),
    };
  }

  private openLogs(): Map<number, LineOutput> {
    const { outputDir, firstRank, ranks, words } = this.plan;
    const logs = new Map<number, LineOutput>();
    if (outputDir === undefined) return logs;
    const onLost = (why: string): void => void this.say([`gradring: ${why}`]);
    try {
      for (let rank = firstRank; rank < firstRank + ranks; rank += 1) {
        logs.set(rank, openRankLog(outputDir, rank, onLost, words.nameOf('outputDir')));
      }
    } catch (error) {
      for (const log of logs.values()) void log.close();
      throw error;
    }
    return logs;
  }

  /** Passes on all that the rank writes. Resolves when it has ended and all of it has been taken. */
  async relay({ rank, stdout, stderr, ended }: RunningRank): Promise<void> {
    const errorOutput = new ErrorOutput();
    this.errorOutputs.set(rank, errorOutput);
    const [outPrefix, errPrefix] = [this.plan.stdout, this.plan.stderr].map(stream =>
      this.plan.prefix ? rankPrefix(this.nameOf(rank), rank, stream, process.env) : '',
    );
    await Promise.all([
      ended,
      relayLines(stdout, async lines => {
        await Promise.all([this.out.write(lines, outPrefix), this.log(rank, lines)]);
      }),
      relayLines(stderr, async lines => {
        errorOutput.add(withoutReplaceable(lines));
        await Promise.all([this.err.write(lines, errPrefix), this.log(rank, lines)]);
      }),
    ]);
  }

  /** What lines of a rank begin with. */
  private nameOf(rank: number): string {
    const host = this.plan.seats[rank - this.plan.firstRank]?.host;
    return host === undefined ? String(rank) : `${host} ${rank}`;
  }

  /** The last words of the rank's last process. */
  lastWords(rank: number): LastWords {
    return (this.errorOutputs.get(rank) ?? new ErrorOutput()).lastWords;
  }

  /** Prints lines of the launcher itself. */
  async say(lines: readonly string[]): Promise<void> {
    await this.err.write(lines);
  }

  /** Resolves when everything has been written. */
  async close(): Promise<void> {
    await Promise.all([...[...this.logs.values()].map(log => log.close()), this.out.release(), this.err.release()]);
  }

  /** Logs have no colours, because they are read in editors and with grep. */
  private async log(rank: number, lines: readonly string[]): Promise<void> {
    await this.logs.get(rank)?.write(withoutReplaceable(lines).map(line => stripVTControlCharacters(line)));
  }
}
