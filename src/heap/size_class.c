// Size classes of small requests, by bytes asked for; each row says its class and what the smallest request of it wastes.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/size_class.h"

// A row: the class, its first and last request in bytes, written as ranges of a designated initialiser.
#define SMALL_CLASS_ROWS \
	/*                   object   least asked for   most waste of the object */ \
	[0 ... 8] = 1,        /*     8                0        100 % */ \
	[9 ... 16] = 2,       /*    16                9         44 % */ \
	[17 ... 32] = 3,      /*    32               17         47 % */ \
	[33 ... 48] = 4,      /*    48               33         31 % */ \
	[49 ... 64] = 5,      /*    64               49         23 % */ \
	[65 ... 80] = 6,      /*    80               65         19 % */ \
	[81 ... 96] = 7,      /*    96               81         16 % */ \
	[97 ... 112] = 8,     /*   112               97         13 % */ \
	[113 ... 128] = 9,    /*   128              113         12 % */ \
	[129 ... 160] = 10,   /*   160              129         19 % */ \
	[161 ... 192] = 11,   /*   192              161         16 % */ \
	[193 ... 224] = 12,   /*   224              193         14 % */ \
	[225 ... 256] = 13,   /*   256              225         12 % */ \
	[257 ... 320] = 14,   /*   320              257         20 % */ \
	[321 ... 384] = 15,   /*   384              321         16 % */ \
	[385 ... 448] = 16,   /*   448              385         14 % */ \
	[449 ... 512] = 17,   /*   512              449         12 % */ \
	[513 ... 640] = 18,   /*   640              513         20 % */ \
	[641 ... 768] = 19,   /*   768              641         17 % */ \
	[769 ... 896] = 20,   /*   896              769         14 % */ \
	[897 ... 1024] = 21,  /*  1024              897         12 % */

const uint8_t size_class_small[SMALL_MOST + 1] = { SMALL_CLASS_ROWS };

const uint32_t size_class_bytes[CLASSES] = {
	0,    8,    16,   32,   48,   64,   80,   96,    112,   128,   160,   192,   224,   256,   320,  384,
	448,  512,  640,  768,  896,  1024, 1280, 1536,  1792,  2048,  2560,  3072,  3584,  4096,  5120, 6144,
	7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536,
};
