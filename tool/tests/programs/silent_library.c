/* A library that can be preloaded but never reports: the tool must notice that vmag was not used.
 * SPDX-License-Identifier: BSD-2-Clause */
int silent_library;
