// Preloaded into a launcher: its agents end after half a minute without a word from it, instead of a whole one. ssh
// needs at most 20 s to tell the launcher that a host is lost, so the launcher and the other hosts have ended before.
require('../../../dist/launcher/hosts/remote-host').HOST_TIMES.silentMs = 30_000;
