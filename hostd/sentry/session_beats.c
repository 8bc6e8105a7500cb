/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The Sentry's session: heartbeats, late beats and silence. The theory is in session.c. */
#include "hostd/sentry/session_parts.h"

#include <string.h>

#include "lib/hex.h"
#include "lib/json.h"

void ss_heard(struct session *s)
{
	s->last_frame_ms = s->running_ms;
	if (s->quiet_said && s->ops.quiet)
		s->ops.quiet(s->u, 0);
	s->quiet_said = s->silence_said = false;
}

void ss_check_silence(struct session *s)
{
	uint64_t quiet_ms = s->running_ms - s->last_frame_ms;

	if (!s->next_conn) {
		if (s->required && !s->absence_said && s->running_ms >= SESSION_NEVER_CONNECTED_MS) {
			s->absence_said = true;
			ss_tamper(s, SESSION_TAMPER_NEVER_CONNECTED,
			       "no Sentry has connected in %u s of running time",
			       SESSION_NEVER_CONNECTED_MS / 1000);
		}
		return;
	}
	if (quiet_ms >= SESSION_SILENCE_WARN_MS && !s->quiet_said) {
		s->quiet_said = true;
		if (s->ops.quiet)
			s->ops.quiet(s->u, quiet_ms);
	}
	if (quiet_ms >= SESSION_SILENCE_MS && !s->silence_said) {
		s->silence_said = true;
		ss_tamper(s, SESSION_TAMPER_SILENCE, "no frame for %u s of running time, the last was %llu",
		       SESSION_SILENCE_MS / 1000, (unsigned long long)s->last_seq);
	}
}

void ss_check_beats(struct session *s)
{
	uint64_t held = s->n_beats < SESSION_BEATS ? s->n_beats : SESSION_BEATS;
	unsigned in_window = 0;

	if (!s->beat_window_ms || s->running_ms - s->beat_window_ms < SESSION_BEAT_WINDOW_MS)
		return;
	for (uint64_t i = 0; i < held; i++)
		if (s->beats[i] + SESSION_BEAT_WINDOW_MS > s->running_ms)
			in_window++;
	if (in_window >= SESSION_BEAT_WINDOW_MIN)
		return;
	s->beat_window_ms = s->running_ms;
	ss_tamper(s, SESSION_TAMPER_LATE_BEATS, "%u heartbeats in %u s of running time", in_window,
	       SESSION_BEAT_WINDOW_MS / 1000);
}

void ss_check_nonce(struct session *s)
{
	uint64_t sent_ms = s->challenges[s->answered % SESSION_CHALLENGES].sent_ms;

	/* No beats at all is silence, and said there. */
	if (s->answered == s->challenged || s->running_ms - sent_ms < SESSION_NONCE_MS ||
	    s->beats_since_answer < 3)
		return;
	ss_tamper(s, SESSION_TAMPER_NONCE_UNANSWERED, "%llu heartbeats without the challenge of %u s before",
	       (unsigned long long)s->beats_since_answer, SESSION_NONCE_MS / 1000);
	ss_forget_challenges(s);
	ss_send_challenge(s);
}

/* ---- heartbeats ---- */

/* The module keeps the newest challenge only, so the earlier ones are answered with it. */
static void take_nonce(struct session *s, const json_t *beat)
{
	const char *hex = json_string_value(json_object_get(beat, "nonce"));
	uint8_t nonce[HF_SENTRY_NONCE_BYTES];

	s->beats_since_answer++;
	if (!hex || hex_decode(nonce, sizeof(nonce), hex))
		return;
	for (uint64_t n = s->answered; n < s->challenged; n++) {
		if (memcmp(s->challenges[n % SESSION_CHALLENGES].nonce, nonce, sizeof(nonce)))
			continue;
		s->answered = n + 1;
		s->beats_since_answer = 0;
		return;
	}
}

static void take_probes(struct session *s, const json_t *beat)
{
	const json_t *probes = json_object_get(beat, "probes");
	int64_t total, armed;
	bool disarmed;

	disarmed = json_get_int(probes, "total", &total, NULL) || json_get_int(probes, "armed", &armed, NULL) ||
		   total <= 0 || armed < total;
	if (disarmed && !s->disarmed) {
		if (json_is_object(probes) && json_is_integer(json_object_get(probes, "total")) &&
		    json_is_integer(json_object_get(probes, "armed")))
			ss_tamper(s, SESSION_TAMPER_PROBES_DISARMED, "%lld of %lld probes are armed",
			       (long long)armed, (long long)total);
		else
			ss_tamper(s, SESSION_TAMPER_PROBES_DISARMED, "a heartbeat that counts no probes");
	}
	s->disarmed = disarmed;
}

/* Only false is a dead one; a canary that this module does not have says nothing. */
static void take_canary(struct session *s, const json_t *beat)
{
	json_t *canary = json_object_get(beat, "canary"), *value;
	const char *name, *dead = NULL;

	json_object_foreach(canary, name, value)
		if (json_is_false(value))
			dead = name;
	if (dead && !s->canary_dead)
		ss_tamper(s, SESSION_TAMPER_CANARY_DEAD, "the %s canary no longer fires", dead);
	s->canary_dead = dead != NULL;
}

/* Real hooks that the thread exercises each second; one missed answer may be a crowded kretprobe. */
static void take_selftest(struct session *s, const json_t *beat)
{
	json_t *selftest = json_object_get(beat, "selftest"), *value;
	const char *name, *mute = NULL;

	json_object_foreach(selftest, name, value)
		if (json_is_false(value))
			mute = name;
	s->mute_beats = mute ? s->mute_beats + 1 : 0;
	if (s->mute_beats == SESSION_MUTE_BEATS)
		ss_tamper(s, SESSION_TAMPER_PROBES_DISARMED, "the hook on %s has not answered for %u heartbeats",
		       mute, SESSION_MUTE_BEATS);
}

static void take_phase(struct session *s, const json_t *beat)
{
	int64_t phase;

	if (json_get_int(beat, "phase", &phase, NULL) || phase < 0 || phase > HF_SENTRY_PHASE_SHUTDOWN)
		return;
	if (phase == HF_SENTRY_PHASE_SHUTDOWN && s->phase != HF_SENTRY_PHASE_SHUTDOWN)
		s->shutdown_ms = s->running_ms;
	s->phase = (int)phase;
}

void ss_take_heartbeat(struct session *s, const json_t *beat)
{
	s->beats[s->n_beats++ % SESSION_BEATS] = s->running_ms;
	if (!s->beat_window_ms)
		s->beat_window_ms = s->running_ms ? s->running_ms : 1;
	take_probes(s, beat);
	take_canary(s, beat);
	take_selftest(s, beat);
	take_phase(s, beat);
	take_nonce(s, beat);
	ss_check_nonce(s);
	ss_send_challenge(s);
}
