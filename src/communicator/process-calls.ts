import { thisProcess } from '../this-process';

/** Calls at an event of this process. Together they are one listener: Node warns of more than ten. */
export class ProcessCalls {
  private readonly calls = new Set<(code: number) => void>();
  private readonly listener = (code: number) => {
    for (const call of this.calls) call(code);
  };

  constructor(private readonly event: 'exit' | 'beforeExit') {}

  add(call: (code: number) => void): void {
    this.calls.add(call);
    if (this.calls.size === 1) thisProcess.on(this.event as 'exit', this.listener);
  }

  delete(call: (code: number) => void): void {
    this.calls.delete(call);
    if (this.calls.size === 0) thisProcess.removeListener(this.event, this.listener);
  }
}
