/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A desktop for tests: takes notifications on the bus of $DBUS_SESSION_BUS_ADDRESS and prints title and body. */
#include <stdio.h>
#include <stdlib.h>
#include <systemd/sd-bus.h>

static int on_notify(sd_bus_message *m, void *user, sd_bus_error *error)
{
	const char *app, *icon, *title, *body;
	uint32_t replaces;

	(void)user;
	(void)error;
	if (sd_bus_message_read(m, "susss", &app, &replaces, &icon, &title, &body) >= 0) {
		printf("%s\n%s\n", title, body);
		fflush(stdout);
	}
	return sd_bus_reply_method_return(m, "u", 1u);
}

static const sd_bus_vtable vtable[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_METHOD("Notify", "susssasa{sv}i", "u", on_notify, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_VTABLE_END,
};

int main(void)
{
	sd_bus *bus = NULL;

	if (sd_bus_open_user(&bus) < 0 ||
	    sd_bus_add_object_vtable(bus, NULL, "/org/freedesktop/Notifications", "org.freedesktop.Notifications", vtable,
				     NULL) < 0 ||
	    sd_bus_request_name(bus, "org.freedesktop.Notifications", 0) < 0)
		return 1;
	puts("ready");
	fflush(stdout);
	for (;;) {
		while (sd_bus_process(bus, NULL) > 0)
			;
		if (sd_bus_wait(bus, UINT64_MAX) < 0)
			return 1;
	}
}
