/**
 * The program of each rank that `gradring bench` starts. Its argument is the {@link Plan}. Rank 0 writes {@link
 * RankEvent} objects.
 */
import { Communicator } from '../../communicator/communicator';
import { GradringError } from '../../errors';
import type { Plan } from './collective-benchmark';
import { collectiveNamed } from './collectives';
import { runRank } from './run-rank';
import type { RankEvent } from './start-ranks';

async function main(plan: Plan): Promise<void> {
  const communicator = await Communicator.connect(plan.links);
  const tell = (event: RankEvent): void => void process.stdout.write(`${JSON.stringify(event)}\n`);
  await runRank(communicator, collectiveNamed(plan.collective), plan, {
    row: row => tell({ row }),
    progress: progress => tell({ progress }),
  });
  await communicator.close();
}

main(JSON.parse(process.argv[2]!) as Plan).catch((error: unknown) => {
  console.error(error instanceof GradringError ? `gradring: ${error.code}: ${error.message}` : error);
  process.exit(1);
});
