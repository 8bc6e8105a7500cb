/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A 32-bit program: connect a TCP socket to 192.0.2.1 port 88 and exit with 3. */
	.globl	_start
_start:
	mov	$359, %eax		/* socket(AF_INET, SOCK_STREAM, 0) */
	mov	$2, %ebx
	mov	$1, %ecx
	xor	%edx, %edx
	int	$0x80
	mov	%eax, %ebx
	mov	$362, %eax		/* connect */
	mov	$address, %ecx
	mov	$16, %edx
	int	$0x80
	mov	$1, %eax		/* exit */
	mov	$3, %ebx
	int	$0x80

	.data
address:
	.short	2
	.byte	0, 88
	.byte	192, 0, 2, 1
	.quad	0
