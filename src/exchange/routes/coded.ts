import { allGatherBodies } from '../../collectives/all-gather';
import { blaming } from '../../collectives/blaming';
import type { CollectiveCall } from '../../collectives/collective-call';
import type { CodedTreatment } from '../../compression/compressors/coded-treatment';
import { decodeMessages, encodeMessages } from '../../wire/compressor-messages';
import { divideMessages } from './divide-messages';
import { agree } from './ring';
import type { MessageTensors, Route, RoutedStep } from './route';
import { SumBuffer } from './sum-buffer';

/**
 * A message for each tensor. Those of all tensors travel together, in one all-gather, on the path of bulk. Tensors that
 * the dense ring is expected to average in less time go that way instead.
 *
 * What it costs is not known. Only the compressions of codes take it, and they take no other.
 */
export class CodedRoute implements Pick<Route, 'carry'> {
  private readonly sums = new SumBuffer();

  /** @param seed Of the random numbers of messages. */
  constructor(private readonly seed: number) {}

  /** @throws GradringError `ERR_PROTOCOL`, naming the rank, for a message that cannot be read. */
  async carry(step: RoutedStep) {
    const { call, arenas, means, clock, prices } = step;
    const path = call.inBulk();
    const agreed = await clock.travel(() => agree(path, step));
    if (agreed.nonFinite !== undefined) return agreed;
    const all = arenas.map(arena => ({ arena, tensors: arena.tensors as readonly CodedTreatment[] }));
    const messages = all.flatMap(({ tensors }) =>
      tensors.map(tensor => ({ tensor, bits: tensor.messageBits, elements: tensor.elementCount })),
    );
    const dense = new Set(divideMessages(messages, prices).dense.map(({ tensor }) => tensor));
    const parts = all.map(({ arena, tensors }) => ({ arena, tensors: tensors.filter(each => !dense.has(each)) }));
    await this.gather(path, step, parts);
    const averaged = messages.flatMap(({ tensor }) => (dense.has(tensor) ? [tensor.toAverage()] : []));
    if (averaged.length > 0) await clock.travel(() => this.sums.mean(path, averaged));
    clock.stage('decode', 'means', () => means.check(arenas));
    return agreed;
  }

  private async gather(path: CollectiveCall, step: RoutedStep, parts: readonly MessageTensors[]): Promise<void> {
    const { clock, number, workers } = step;
    const seeds = { seed: this.seed, step: number, rank: path.rank };
    const own = await clock.stage('encode', 'messages', async () => {
      const messages: Uint8Array[] = [];
      for (const part of parts) messages.push(...(await workers.writeMessages(part, seeds)));
      return messages;
    });
    if (own.length === 0) return;
    const bodies = await clock.travel(() => allGatherBodies(path, encodeMessages(own)));
    const byRank = bodies.map((body, rank) => blaming(rank, () => decodeMessages(body, own.length)));
    await clock.stage('decode', 'messages', async () => {
      let start = 0;
      for (const part of parts) {
        const end = start + part.tensors.length;
        await workers.addMessages(
          part,
          byRank.map(messages => messages.slice(start, end)),
        );
        start = end;
      }
    });
  }
}
