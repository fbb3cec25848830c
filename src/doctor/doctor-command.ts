import pc from 'picocolors';
import type { Argv, CommandModule } from 'yargs';
import { DEFAULT_MASTER_PORT, type RankEnvironment } from '../environment/rank-environment';
import { backendFindings } from './backends';
import type { Finding } from './finding';
import { coresFinding, memoryFinding, openFilesFinding, sharedMemoryFinding } from './limits';
import { networkFinding } from './network';
import { placeFinding } from './place';
import { nodeFinding, wasmFinding, zeromqFinding } from './runtime';
import { tensorFlowFinding } from './tensorflow-copies';

/** `gradring doctor`. The exit code is 1 if there is a problem. */
export const doctorCommand: CommandModule = {
  command: 'doctor',
  describe: 'Show what this machine has for a ring, and what it lacks',
  builder: (yargs: Argv) =>
    yargs
      .usage('$0 doctor [options]\n\nShows what this machine has for a ring, and what it lacks.')
      .options({
        'master-addr': {
          type: 'string',
          requiresArg: true,
          describe:
            'The host of rank 0, to show which network interface a ring would use [default: MASTER_ADDR, or this host]',
        },
        json: { type: 'boolean', default: false, describe: 'Print the findings as one JSON object' },
      })
      .example('$0 doctor', 'check this machine')
      .example('$0 doctor --master-addr 10.0.0.5', 'also check the way to the host of rank 0'),
  handler: async parsed => {
    const place = placeFinding();
    const known = place.details as Partial<RankEnvironment>;
    const masterAddr = (parsed['master-addr'] as string | undefined) ?? known.masterAddr ?? '127.0.0.1';
    const limits = [coresFinding(), memoryFinding(), openFilesFinding(), sharedMemoryFinding()];
    const findings = [
      ...[nodeFinding(), zeromqFinding(), wasmFinding()],
      ...limits.filter(finding => finding !== undefined),
      place,
      await networkFinding(masterAddr, known.masterPort ?? DEFAULT_MASTER_PORT),
      tensorFlowFinding(),
      ...(await backendFindings()),
    ];
    const hasProblem = findings.some(({ verdict }) => verdict === 'problem');
    console.log(parsed['json'] ? JSON.stringify({ ok: !hasProblem, findings }) : findings.map(line).join('\n'));
    if (hasProblem) process.exitCode = 1;
  },
};

const MARKS = {
  ok: pc.green('ok'),
  absent: pc.dim('absent'),
  warning: pc.yellow('warning'),
  problem: pc.red('problem'),
};

function line({ what, verdict, words }: Finding): string {
  const mark = MARKS[verdict] + ' '.repeat('warning'.length - verdict.length);
  return `${mark}  ${what.padEnd('tfjs-node-gpu'.length)}  ${words}`;
}
