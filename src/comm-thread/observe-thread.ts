import { Observer } from '../observer';
import { Timeline } from '../timeline/timeline';
import type { ThreadName } from '../timeline/trace-event';
import type { ThreadData } from './thread-protocol';

/** The observer of a thread, with all that listens from the start. A new listener is added here. */
export function observeThread(thread: ThreadName, data: Pick<ThreadData, 'metrics' | 'timeline'>): Observer {
  const observer = new Observer(data.metrics);
  if (data.timeline !== undefined) observer.listen(new Timeline(data.timeline, thread));
  return observer;
}
