import { wakingNow } from '../waking-time';
import type { MembershipPolicy } from './coordinator';

/**
 * The policy of a static run: all members form one ring in time, or no ring forms.
 *
 * @param timeoutMs How long all of them may take to come, from now on, and then to connect.
 * @param needsToken Whether only members that know the run token can come.
 */
export function staticPolicy(worldSize: number, timeoutMs: number, needsToken: boolean): MembershipPolicy {
  const deadline = wakingNow() + timeoutMs;
  return {
    holder: 'rank 0',
    isElastic: false,
    mayForm: () => true,
    waitMs: step => (step === 'connect' ? timeoutMs : Math.max(0, deadline - wakingNow())),
    onFormed: () => undefined,
    onAbsent: (members, refusals) => {
      const ranks = `${members.length === 1 ? 'rank' : 'ranks'} ${members.join(', ')}`;
      const token = needsToken ? ', with the run token of rank 0' : '';
      const hint = refusals.length > 0 ? '' : ` Do they run, and call connect()${token}?`;
      const reasons = refusals.slice(0, 8).map(words => ` Refused: ${words}`);
      return `Of ${worldSize} ranks, ${ranks} did not come to the rendezvous within ${timeoutMs} ms.${hint}${reasons.join('')}`;
    },
  };
}
