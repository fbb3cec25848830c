import type { Ticket } from '../../work';
import type { ConnectInput } from '../../communicator/communicator';
import type { ExchangeHandle, ExchangeInput } from '../../exchange/exchange-handle';
import type { ExchangeResult, ExchangeStep } from '../../exchange/messages';
import { Ring } from '../../tensorflow/ring';

/** What a step of a wrapped optimizer spent its time on, in ms. */
export interface StepParts {
  /** Copying gradients from tensors into the arena. */
  readonly copyOut: number;
  /** Accumulating, selecting, and settling what was sent. */
  readonly compress: number;
  /** The rest of the exchange: encoding, sending, decoding, and messages between the two threads. */
  readonly exchange: number;
  /** The mean update becomes tensors again, and changes the variables. */
  readonly copyIn: number;
}

/** A ring that times its synchronous steps. */
export class TimedRing extends Ring {
  private parts = { copyOut: 0, compress: 0, exchange: 0, copyIn: 0 };

  static override async connect(input: ConnectInput): Promise<TimedRing> {
    const ring = new this(...(await TimedRing.start(input)));
    ring.observer.listen({
      kinds: ['copy', 'apply'],
      onSpan: ({ kind, start, end }) => {
        ring.parts[kind === 'copy' ? 'copyOut' : 'copyIn'] = (end - start) / 1000;
      },
    });
    return ring;
  }

  /** The parts of the last step. */
  get stepParts(): StepParts {
    return { ...this.parts };
  }

  override openExchange(input: ExchangeInput): ExchangeHandle {
    const handle = super.openExchange(input);
    const start = handle.start.bind(handle);
    handle.start = (step: ExchangeStep): Ticket<ExchangeResult> => {
      const begin = performance.now();
      const ticket = start(step);
      const sleep = (): ExchangeResult => {
        const result = ticket.sleep();
        const { compress } = result.timesMs;
        Object.assign(this.parts, { compress, exchange: performance.now() - begin - compress });
        return result;
      };
      return {
        get promise() {
          return ticket.promise;
        },
        sleep,
      };
    };
    return handle;
  }
}
